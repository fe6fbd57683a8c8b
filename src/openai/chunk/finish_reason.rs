//! Classifies the words with which providers end an answer.

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
}

/// What the word in a `finish_reason` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishWord {
    Reason(FinishReason),
    /// A spelling of null: the answer goes on.
    Nothing,
    /// A word of failure.
    Failure,
    /// A word that nobody knows. What it ends is not known to be whole, or meant.
    Unknown,
}

/// Words for a good end, in letters and digits alone.
const STOPS: [&str; 16] = [
    "stop",
    "endturn",
    "stopsequence",
    "eos",
    "eostoken",
    "complete",
    "completed",
    "finished",
    "done",
    "eosfound",
    "endoftext",
    "endofsequence",
    "stopstring",
    "stopstringfound",
    "stoptoken",
    "stopsequencereached",
];

/// Words for the output limit, or for the end of the model's context.
const LIMITS: [&str; 32] = [
    "length",
    "lengthlimit",
    "maxlength",
    "maxlengthreached",
    "maxtoken",
    "maxtokens",
    "maximumtokens",
    "maxoutputtokens",
    "maxcompletiontokens",
    "maxnewtokens",
    "maxtokensreached",
    "maxtokensexceeded",
    "maxpredictedtokensreached",
    "tokenlimit",
    "tokenlimitreached",
    "tokenlimitexceeded",
    "outputlimit",
    "outputtokenlimit",
    "limit",
    "limitreached",
    "truncated",
    "errorlimit",
    "timelimit",
    "modellength",
    "contextlength",
    "contextlimit",
    "contextlengthreached",
    "contextlengthexceeded",
    "maxcontextlength",
    "maxtoolcalls",
    "contextwindowexceeded",
    "modelcontextwindowexceeded",
];

/// Words for a filter that stopped the model.
const FILTERS: [&str; 37] = [
    "contentfilter",
    "contentfiltered",
    "contentfiltering",
    "contentblocked",
    "contentpolicy",
    "contentpolicyviolation",
    "policyviolation",
    "contentsafety",
    "contentmoderation",
    "contentflagged",
    "flagged",
    "filter",
    "filtered",
    "errortoxic",
    "toxic",
    "sensitive",
    "sensitivecontent",
    "safety",
    "safetyfilter",
    "safetyblocked",
    "moderation",
    "moderated",
    "blocked",
    "promptblocked",
    "blocklist",
    "blacklist",
    "recitation",
    "imagerecitation",
    "prohibitedcontent",
    "spii",
    "imagesafety",
    "imageprohibitedcontent",
    "guardrail",
    "guardrails",
    "guardrailintervened",
    "modelarmor",
    "refusal",
];

/// Words for an answer that ends with calls.
const CALLS: [&str; 5] = ["toolcalls", "toolcall", "tooluse", "functioncall", "functioncalls"];

impl FinishWord {
    /// Reads a word in any case of letters and with any marks between them: providers write
    /// `max_tokens`, `MAX_TOKENS`, `max-tokens` and `FinishReason.MAX_TOKENS`.
    pub(crate) fn read(word: &str) -> Self {
        let last = word.rsplit('.').next().unwrap_or_default();
        let letters = last.chars().filter(char::is_ascii_alphanumeric);
        let solid: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        let known = solid.strip_prefix("finishreason").unwrap_or(&solid);
        if matches!(known, "" | "null" | "none" | "notfinished") {
            return Self::Nothing;
        }
        let groups = [
            (&STOPS[..], FinishReason::Stop),
            (&LIMITS[..], FinishReason::Length),
            (&FILTERS[..], FinishReason::ContentFilter),
            (&CALLS[..], FinishReason::ToolCalls),
        ];
        let group = groups.into_iter().find(|(words, _)| words.contains(&known));
        match group {
            Some((_, reason)) => Self::Reason(reason),
            None if is_failure(known) => Self::Failure,
            None => Self::Unknown,
        }
    }
}

/// Whether a word reports a failure.
fn is_failure(word: &str) -> bool {
    word.contains("error") || word.contains("fail") || word.starts_with("malformed")
}

impl FinishReason {
    /// The reason that a word of OpenAI's stands for; `None` for any other word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match FinishWord::read(word) {
            FinishWord::Reason(reason) => Some(reason),
            FinishWord::Nothing | FinishWord::Failure | FinishWord::Unknown => None,
        }
    }

    /// Combines two reasons of one answer. A cut counts whatever reason comes before or after
    /// it; the first cut stands.
    pub(crate) fn then(self, next: Self) -> Self {
        if next.is_cut_off() && !self.is_cut_off() { next } else { self }
    }

    /// Whether the model was stopped before it was done.
    pub(crate) fn is_cut_off(self) -> bool {
        matches!(self, Self::Length | Self::ContentFilter)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::ToolCalls => "tool_calls",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: FinishWord) {
        for word in words {
            assert_eq!(FinishWord::read(word), expected, "{word}");
        }
    }

    #[test]
    fn wire_15_words_of_a_good_end_a_limit_and_a_filter_are_told_apart() {
        check(
            &[
                "stop",
                "STOP",
                "end_turn",
                "stop_sequence",
                "eos",
                "EOS_TOKEN",
                "complete",
                "COMPLETED",
                "Finished",
                "done",
                "FinishReason.STOP",
                "FINISH_REASON_STOP",
                "eosFound",
                "stopStringFound",
                "end_of_text",
            ],
            FinishWord::Reason(FinishReason::Stop),
        );
        check(
            &[
                "length",
                "max_tokens",
                "MAX_TOKENS",
                "model_length",
                "max-tokens",
                "maxOutputTokens",
                "model_context_window_exceeded",
                "FinishReason.MAX_TOKENS",
                // Cohere, watsonx, LM Studio, Aleph Alpha.
                "ERROR_LIMIT",
                "TIME_LIMIT",
                "token_limit",
                "maxPredictedTokensReached",
                "contextLengthReached",
                "maximum_tokens",
                "limit",
            ],
            FinishWord::Reason(FinishReason::Length),
        );
        check(
            &[
                "content_filter",
                "content-filter",
                "sensitive",
                "SAFETY",
                "RECITATION",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "IMAGE_SAFETY",
                "content_filtered",
                "guardrail_intervened",
                "refusal",
                "ERROR_TOXIC",
                "MODEL_ARMOR",
                "content_policy_violation",
                "moderated",
            ],
            FinishWord::Reason(FinishReason::ContentFilter),
        );
        check(
            &["tool_calls", "tool-calls", "TOOL_USE", "function_call", "toolCalls"],
            FinishWord::Reason(FinishReason::ToolCalls),
        );
    }

    #[test]
    fn wire_15_a_word_that_nobody_knows_is_no_success() {
        check(
            &[
                "abort",
                "aborted",
                "cancelled",
                "timeout",
                "insufficient_system_resource",
                "OTHER",
                "UNEXPECTED_TOOL_CALL",
                "pause_turn",
                "repetition",
                "unknown",
                "stopped",
                "FINISH_REASON_UNSPECIFIED",
                "LANGUAGE",
                "USER_CANCEL",
                "userStopped",
                "ok",
                "success",
                "stop stop",
                "non-stop",
                "incomplete",
                "unfinished",
                "7",
            ],
            FinishWord::Unknown,
        );
        check(
            &[
                "error",
                "network_error",
                "x_failed",
                "Failure",
                "MALFORMED_FUNCTION_CALL",
                "malformed_tool_use",
                "malformed_model_output",
            ],
            FinishWord::Failure,
        );
    }

    #[test]
    fn words_for_null_are_none() {
        check(&["null", "None", "NULL", "", " ", "NOT_FINISHED"], FinishWord::Nothing);
    }
}
