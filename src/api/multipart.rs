//! Finds the field names of a multipart body while it is streamed. Pure.
//!
//! Stricter than the parsers behind us, so that no field is missed that they would see: a
//! body that can be parsed in two ways is refused.

use super::denied_fields;
use crate::errors::{ApiError, ErrorCode};

/// The longest boundary that RFC 2046 allows.
const MAX_BOUNDARY: usize = 70;

/// The head of a part is a few short lines.
const MAX_HEAD: usize = 8 << 10;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Scans a multipart body. The outcome does not depend on how its bytes are cut.
#[derive(Debug)]
pub(crate) struct FieldNames {
    /// Two hyphens and the boundary. It counts wherever it occurs.
    delimiter: Vec<u8>,
    place: Position,
    /// Bytes that were not decided yet.
    pending: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Start,
    Content,
    AfterDelimiter,
    Head,
    End,
}

impl FieldNames {
    /// For the body of a request with this content type.
    pub(crate) fn from_content_type(content_type: &str) -> Result<Self, ApiError> {
        let boundary = boundary(content_type).ok_or_else(|| invalid("has no valid boundary"))?;
        let delimiter = format!("--{boundary}").into_bytes();
        Ok(Self { delimiter, place: Position::Start, pending: Vec::new() })
    }

    /// Takes the next bytes. Fails if a field is denied or cannot be parsed.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        self.pending.extend_from_slice(bytes);
        while self.step()? {}
        Ok(())
    }

    /// Checks that the body has ended properly.
    pub(crate) fn finish(&self) -> Result<(), ApiError> {
        if self.place == Position::End { Ok(()) } else { Err(invalid("breaks off")) }
    }

    /// Advances to the next position if enough bytes are there.
    fn step(&mut self) -> Result<bool, ApiError> {
        match self.place {
            Position::Start => self.read_start(),
            Position::Content => Ok(self.skip_content()),
            Position::AfterDelimiter => self.read_after_delimiter(),
            Position::Head => self.read_head(),
            Position::End if self.pending.iter().all(u8::is_ascii_whitespace) => {
                self.pending.clear();
                Ok(false)
            }
            Position::End => Err(invalid("goes on after its end")),
        }
    }

    fn read_start(&mut self) -> Result<bool, ApiError> {
        let known = self.pending.len().min(self.delimiter.len());
        if self.pending[..known] != self.delimiter[..known] {
            return Err(invalid("does not begin with its boundary"));
        }
        if known < self.delimiter.len() {
            return Ok(false);
        }
        Ok(self.advance(known, Position::AfterDelimiter))
    }

    fn skip_content(&mut self) -> bool {
        if let Some(at) = find(&self.pending, &self.delimiter) {
            return self.advance(at + self.delimiter.len(), Position::AfterDelimiter);
        }
        let undecided = self.delimiter.len() - 1;
        let decided = self.pending.len().saturating_sub(undecided);
        self.pending.drain(..decided);
        false
    }

    fn read_after_delimiter(&mut self) -> Result<bool, ApiError> {
        match self.pending.get(..2) {
            None => Ok(false),
            Some(b"--") => Ok(self.advance(2, Position::End)),
            Some(b"\r\n") => Ok(self.advance(2, Position::Head)),
            Some(_) => Err(invalid("has its boundary inside a line")),
        }
    }

    fn read_head(&mut self) -> Result<bool, ApiError> {
        let end = find(&self.pending, HEAD_END);
        if end.unwrap_or(self.pending.len()) > MAX_HEAD {
            return Err(invalid("has a part with too large a head"));
        }
        let Some(end) = end else { return Ok(false) };
        let name = field_name(&self.pending[..end])?;
        denied_fields::check_form_field(&name)?;
        Ok(self.advance(end + HEAD_END.len(), Position::Content))
    }

    fn advance(&mut self, bytes: usize, place: Position) -> bool {
        self.pending.drain(..bytes);
        self.place = place;
        true
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn boundary(content_type: &str) -> Option<String> {
    let parameters = parameters(content_type)?;
    let mut boundaries = parameters.into_iter().filter(|(name, _)| name == "boundary");
    let (_, boundary) = boundaries.next()?;
    let is_only = boundaries.next().is_none();
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    let fits = (1..=MAX_BOUNDARY).contains(&boundary.len());
    (is_only && fits && boundary.bytes().all(is_valid)).then_some(boundary)
}

/// The `name` in the single `Content-Disposition` of a part's head.
fn field_name(head: &[u8]) -> Result<String, ApiError> {
    let unreadable = || invalid("has a part with an unreadable head");
    let head = str::from_utf8(head).map_err(|_| unreadable())?;
    let mut disposition = None;
    for line in head.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or_else(unreadable)?;
        if line.contains(|c: char| c.is_control() && c != '\t') || name.trim() != name {
            return Err(unreadable());
        }
        if name.eq_ignore_ascii_case("content-disposition") && disposition.replace(value).is_some()
        {
            return Err(unreadable());
        }
    }
    let parameters = disposition.and_then(parameters).ok_or_else(unreadable)?;
    let names: Vec<_> = parameters.iter().filter(|(name, _)| name.starts_with("name")).collect();
    match names.as_slice() {
        [(name, value)] if name == "name" => Ok(value.clone()),
        _ => Err(unreadable()),
    }
}

/// The parameters after the first `;`, with names in lower case. `None` for everything
/// that two parsers could read differently.
fn parameters(header: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let (_, mut rest) = header.split_once(';')?;
    loop {
        let (name, value) = rest.split_once('=')?;
        let name = name.trim().to_ascii_lowercase();
        if name.contains([';', '"', ',']) {
            return None;
        }
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find(';').unwrap_or(value.len())),
        };
        if value.contains(['\\', '"']) {
            return None;
        }
        found.push((name, value.trim().to_owned()));
        match behind.trim() {
            "" => return Some(found),
            behind => rest = behind.strip_prefix(';')?,
        }
        if rest.trim().is_empty() {
            return Some(found);
        }
    }
}

fn invalid(what: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, format!("The multipart body {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    fn body(heads: &[&str]) -> String {
        let part = |head: &&str| format!("--XX\r\n{head}\r\n\r\ncontent\r\n");
        let parts: Vec<_> = heads.iter().map(part).collect();
        format!("{}--XX--\r\n", parts.concat())
    }

    fn named(name: &str) -> String {
        format!("Content-Disposition: form-data; name=\"{name}\"")
    }

    fn watch(body: &[u8], cut: usize) -> Result<(), ErrorCode> {
        let mut names = FieldNames::from_content_type(TYPE).unwrap();
        let fed = body.chunks(cut).try_for_each(|piece| names.feed(piece));
        fed.and_then(|()| names.finish()).map_err(|error| error.code)
    }

    /// The result must not depend on how the bytes are cut.
    #[track_caller]
    fn check(body: &str, expected: Result<(), ErrorCode>) {
        for cut in 1..=body.len() {
            assert_eq!(watch(body.as_bytes(), cut), expected, "in pieces of {cut}: {body:?}");
        }
    }

    #[test]
    fn lets_ordinary_fields_by() {
        let file = "content-disposition: form-data; filename=\"a;name=b.png\"; name=\"image[]\"\r\n\
                    Content-Type: image/png";
        check(&body(&[&named("model"), file]), Ok(()));
        check(&body(&["Content-Disposition: form-data; name=file"]), Ok(()));
        check("--XX--", Ok(()));
    }

    #[test]
    fn refuses_a_refused_field_wherever_it_stands() {
        let refused = Err(ErrorCode::RefusedField);
        check(&body(&[&named("api_base")]), refused);
        check(&body(&[&named("model"), &named("file"), &named("litellm_params")]), refused);
        check(&body(&["CONTENT-DISPOSITION:form-data;NAME=Api_Key"]), refused);
        check(&body(&[&named("model"), &named("fallbacks[]")]), refused);
        check(&body(&[&named("metadata")]), refused);
        let hidden = "--XX\r\n\
            Content-Disposition: form-data; name=\"a\"\r\n\r\n\n--XX\r\n\
            Content-Disposition: form-data; name=\"api_key\"\r\n\r\nx\r\n--XX--";
        check(hidden, refused);
    }

    #[test]
    fn refuses_what_could_be_read_in_two_ways() {
        for head in [
            "Content-Disposition: form-data; name*=utf-8''api_base",
            "Content-Disposition: form-data; name=\"a\"; name=\"api_base\"",
            "Content-Disposition: form-data; name=\"a\\\"; x=\"",
            "Content-Disposition: form-data; name=\"a\r\n b\"",
            "Content-Disposition: form-data",
            "Content-Type: text/plain",
            "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b",
            "Content-Disposition: form-data; name=\"a\"\nx: y",
        ] {
            check(&body(&[head]), Err(ErrorCode::InvalidValue));
        }
        for whole in ["", "x--XX--", "--XX\r\n", "--XX--more", "--XXa", "--XX\n"] {
            assert_eq!(watch(whole.as_bytes(), 100), Err(ErrorCode::InvalidValue), "{whole:?}");
        }
    }

    #[test]
    fn needs_one_plain_boundary() {
        assert!(
            FieldNames::from_content_type("multipart/form-data; charset=utf-8; boundary=\"a b\"")
                .is_err()
        );
        assert!(
            FieldNames::from_content_type("multipart/form-data; boundary=a; boundary=b").is_err()
        );
        assert!(FieldNames::from_content_type("multipart/form-data").is_err());
        assert!(FieldNames::from_content_type("multipart/form-data; Boundary=\"a-b\"").is_ok());
    }

    #[test]
    fn keeps_little_of_a_long_body() {
        let mut names = FieldNames::from_content_type(TYPE).unwrap();
        names.feed(format!("--XX\r\n{}\r\n\r\n", named("file")).as_bytes()).unwrap();
        for _ in 0..100 {
            names.feed(&[b'x'; 10_000]).unwrap();
        }
        assert!(names.pending.len() < 10);
        let mut endless = FieldNames::from_content_type(TYPE).unwrap();
        endless.feed(b"--XX\r\n").unwrap();
        assert!(endless.feed(&[b'x'; 10_000]).is_err());
    }
}
