//! Decides how a stream reports the tools' progress.

use crate::sessions::request::{FrontendSigns, Progress};

/// `configured` is the operator's setting or its default. What a request says beats all; an
/// operator who wants events or nothing gets that; and Open WebUI is shown cards.
pub(super) fn choose(
    requested: Option<Progress>,
    configured: Progress,
    frontend: FrontendSigns,
) -> Progress {
    let FrontendSigns { has_open_webui_header, declares_ask_user } = frontend;
    match (requested, configured) {
        (Some(requested), _) => requested,
        (None, Progress::None | Progress::Events) => configured,
        (None, _) if has_open_webui_header || declares_ask_user => Progress::Cards,
        (None, _) => configured,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_beats_the_configuration_which_beats_the_signs_of_a_frontend() {
        use Progress::{Cards, Events, None as Nothing, Reasoning};
        let check = |requested: Option<Progress>, configured: Progress, expected: [Progress; 4]| {
            let signs = [(false, false), (true, false), (false, true), (true, true)];
            let chosen = signs.map(|(has_open_webui_header, declares_ask_user)| {
                let signs = FrontendSigns { has_open_webui_header, declares_ask_user };
                choose(requested, configured, signs)
            });
            assert_eq!(chosen, expected, "{requested:?} {configured:?}");
        };
        check(None, Reasoning, [Reasoning, Cards, Cards, Cards]);
        check(None, Cards, [Cards; 4]);
        check(None, Events, [Events; 4]);
        check(None, Nothing, [Nothing; 4]);
        for requested in [Reasoning, Events, Cards, Nothing] {
            for configured in [Reasoning, Events, Cards, Nothing] {
                check(Some(requested), configured, [requested; 4]);
            }
        }
    }
}
