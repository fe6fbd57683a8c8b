//! Writes numbers within their bounds.

use serde_json::{Number, Value};

use super::layers::Layers;

/// Floats hold every integer below this one.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// An integer for `multipleOf: 0.4` is a multiple of 2. More factors than these are not tried.
const MAX_FACTOR: u32 = 1_000;

/// The bounds of a number, and the step between the numbers to choose from.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: f64,
    high: f64,
    is_low_excluded: bool,
    is_high_excluded: bool,
    step: Option<f64>,
}

pub(super) fn integer(layers: &Layers<'_>, number: usize) -> Option<Value> {
    let bounds = Bounds::from_layers(layers);
    let step = bounds.step.unwrap_or(1.0);
    let step =
        (1..=MAX_FACTOR).map(|factor| step * f64::from(factor)).find(|step| step.fract() == 0.0)?;
    match bounds.multiple(step, number) {
        Some(found) if found.abs() < EXACT => Some(whole(found)),
        // A float would miss a bound as large as this, so the bound itself is taken.
        found => bound_itself(layers, number, &bounds).or_else(|| found.map(whole)),
    }
}

pub(super) fn number(layers: &Layers<'_>, number: usize) -> Option<Value> {
    let bounds = Bounds::from_layers(layers);
    let found = bounds.multiple(bounds.step.unwrap_or(1.0), number);
    let found = found.or_else(|| bounds.between(number))?;
    Some(if found.fract() == 0.0 { whole(found) } else { float(found) })
}

fn bound_itself(layers: &Layers<'_>, number: usize, bounds: &Bounds) -> Option<Value> {
    let mut ends = ["minimum", "maximum"].into_iter().flat_map(|name| layers.all(name));
    let is_exact = |end: &&Value| end.is_i64() || end.is_u64();
    let found = ends.find(|end| is_exact(end) && end.as_f64().is_some_and(|end| bounds.has(end)));
    found.filter(|_| number == 0).cloned()
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(number: f64) -> Value {
    if number.abs() < EXACT { (number as i64).into() } else { float(number) }
}

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

impl Bounds {
    fn from_layers(layers: &Layers<'_>) -> Self {
        let mut bounds = Self {
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            is_low_excluded: false,
            is_high_excluded: false,
            step: layers.all("multipleOf").filter_map(Value::as_f64).find(|step| *step > 0.0),
        };
        for low in layers.all("minimum").filter_map(Value::as_f64) {
            bounds.low = bounds.low.max(low);
        }
        for high in layers.all("maximum").filter_map(Value::as_f64) {
            bounds.high = bounds.high.min(high);
        }
        for low in layers.all("exclusiveMinimum").filter_map(Value::as_f64) {
            bounds.is_low_excluded |= low >= bounds.low;
            bounds.low = bounds.low.max(low);
        }
        for high in layers.all("exclusiveMaximum").filter_map(Value::as_f64) {
            bounds.is_high_excluded |= high <= bounds.high;
            bounds.high = bounds.high.min(high);
        }
        bounds
    }

    fn has(&self, number: f64) -> bool {
        let is_above = if self.is_low_excluded { number > self.low } else { number >= self.low };
        let is_below = if self.is_high_excluded { number < self.high } else { number <= self.high };
        is_above && is_below
    }

    /// The multiple of `step` that is `number` multiples behind the one next to zero: upwards
    /// as far as the bounds allow, then downwards.
    fn multiple(&self, step: f64, number: usize) -> Option<f64> {
        let first = self.next_to_zero(step);
        let away = count(number) * step;
        let room = ((self.high - first) / step).floor();
        let downwards = first - (count(number) - room) * step;
        let found = [first + away, downwards, first - away];
        found.into_iter().find(|found| found.is_finite() && self.has(*found))
    }

    fn next_to_zero(&self, step: f64) -> f64 {
        if self.has(0.0) {
            0.0
        } else if self.low >= 0.0 {
            let first = (self.low / step).ceil() * step;
            if self.has(first) { first } else { first + step }
        } else {
            let first = (self.high / step).floor() * step;
            if self.has(first) { first } else { first - step }
        }
    }

    /// A number between bounds that have no whole number between them.
    fn between(&self, number: usize) -> Option<f64> {
        let part = (count(number) + 1.0) / (count(number) + 2.0);
        let found = self.low + (self.high - self.low) * part;
        Some(found).filter(|found| self.step.is_none() && self.has(*found))
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most the number of items of a list")]
fn count(number: usize) -> f64 {
    number as f64
}
