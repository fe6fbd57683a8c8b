//! Recognises, in the words of many providers, that a request has more tokens than its model
//! takes.

use std::sync::LazyLock;

use regex::RegexSet;

/// What providers and servers of models say, in lower case, each from a public report.
static OVERFLOW: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        // LiteLLM's class, OpenAI's code and its kin.
        r"context[\s_-]?(?:window|length|size)s?[\s_-]?(?:was |has been |is )?exceed",
        r"max(?:imum)?[_ ](?:prompt|input|context)[_ ]tokens[_ ]exceeded",
        r"model_max_prompt_tokens_exceeded|request_too_large|prompt_too_long|input_too_long",
        // OpenAI, vLLM, SGLang, OpenRouter, DeepSeek: its maximum context length is …
        r"maximum (?:context|prompt|input|model|sequence|allowed input|allowed context) ?(?:length|size|window|limit)",
        r"max(?:imum)?[ _]model[ _]len(?:gth)?",
        r"context (?:length|window|size|limit)(?: of the model| of the loaded model)? (?:is|of) (?:only )?\d",
        r"(?:more|greater|longer|larger) (?:tokens )?than (?:the |its |this )?(?:model'?s? )?(?:maximum |max )?(?:context|model length|prompt length|input length|sequence length)",
        // … exceeds the context window, the available context size, the limit of …
        r"exceed(?:s|ed|ing)? (?:the |its |this |your )?(?:model'?s? )?(?:maximum |max(?:imum)? |available |total |configured |allowed )*(?:number of |count of )?(?:context|input|prompt|sequence|model token|token)s?(?: (?:length|size|window|limit|count|tokens?|budget))?\b",
        r"(?:context|input|prompt)(?: (?:length|window|size|tokens?))?(?: and `?max_tokens`?)?(?: \(?\d[\d,]*(?: tokens)?\)?)? exceeds? (?:the )?(?:context |model'?s? |token )?(?:limit|max)",
        r"(?:prompt|input|context|conversation|history)(?: token count| tokens?| length)?(?: of \d[\d,]*)? exceeds (?:the |its )?(?:limit|max|maximum|model)",
        r"tokens? in (?:the )?(?:request|prompt|input) (?:is |are )?(?:more|greater|larger) than max",
        r"\btokens,? (?:which |that |and )?exceed|exceed_context",
        r"context window exceeds limit|exceeds? (?:the )?max(?:imum)? (?:length|sequence)",
        r"token count[^.]{0,60}exceeds? the (?:maximum|limit)",
        r"input tokens? (?:exceed|is too|are too)|too many (?:input |prompt )?tokens",
        // … is too long, too large.
        r"(?:prompt|input|context|conversation|messages?|request|history|transcript) (?:is|are|was|were) too (?:long|large) for",
        r"(?:prompt|input|context|conversation|transcript|history|input_text|inputs?|messages array) (?:is|are|was|were)? ?(?:too|so) long",
        r"too large for (?:the )?model with|too long for (?:the |this )?(?:model|context)",
        r"(?:prompt|input|context|total|message|conversation|history)[_ ]tokens?\b[^.]{0,40}exceed",
        r"(?:length|size) of (?:the )?(?:messages|prompt|input|conversation)[^.]{0,20}exceed",
        r"token length (?:is )?(?:too long|exceed)|(?:message|request) too long",
        r"prompt too long|input too long|context too long",
        // Groq, Cerebras.
        r"reduce the length of (?:the|your) (?:messages|prompt|input|conversation)",
        r"reduce your (?:message|prompt|input) (?:size|length)",
        r"current length is \d+ while limit is \d+",
        // Together, TGI.
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
        r"inputs? must have less than \d+ tokens",
        // Qwen.
        r"range of input length should be",
        // Cohere, Snowflake, Databricks, Perplexity.
        r"total number of tokens[^.]{0,60}(?:cannot|can't|must not) exceed",
        r"max tokens of \d+ exceeded|token limit (?:was |has been )?exceeded|token limit for this model",
        // Vertex.
        r"input token count (?:is|of) [\d,]+ but (?:the )?model (?:only )?supports",
        // LM Studio.
        r"tokens to keep from the initial prompt|context the overflows|context[ _-]?overflow",
        // GLM and other Chinese providers.
        r"(?:上下文|输入|提示词?|对话|prompt|tokens?)[^。]{0,12}(?:过长|超长|超出|超过)",
    ])
    .expect("regular expressions")
});

/// What sounds like it and is about something else: the length of the answer, one field, a rate.
static OTHER: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"string_above_max_length|string too long",
        r"max_(?:completion_|output_)?tokens`?:? (?:is too large|\d+ >|must be|should be|cannot|exceeds)",
        r"maximum (?:allowed )?number of output tokens",
        r"rate[ _-]?limit|too many requests|tokens per (?:minute|day|hour)|per min\b|quota",
        r"(?:image|file|audio|video|document|pdf)[^.]{0,40}(?:exceed|too large|too long)",
    ])
    .expect("regular expressions")
});

/// A request that is larger than a whole minute's share: no wait helps, a shorter one does.
const LARGER_THAN_ITS_SHARE: &str = "request too large for";

/// Whether the text, in lower case, says that the request is too long for the model.
pub(super) fn is_told(text: &str) -> bool {
    text.contains(LARGER_THAN_ITS_SHARE) || (OVERFLOW.is_match(text) && !OTHER.is_match(text))
}

/// Whether a refusal for a rate says that the request alone is too large for it.
pub(super) fn is_beyond_its_share(text: &str) -> bool {
    text.contains(LARGER_THAN_ITS_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_25_each_provider_has_its_own_words() {
        for text in [
            "prompt is too long: 212345 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 198003 + 8192 > 200000",
            "Request size exceeds model context window",
            "request_too_large",
            "Input is too long for requested model.",
            "Your input exceeds the context window of this model. Please adjust your input",
            "Input tokens exceed the configured limit of 272000 tokens.",
            "context_length_exceeded",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            "Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Please reduce the length of the messages or completion.",
            "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens",
            "prompt token count of 130000 exceeds the limit of 128000",
            "model_max_prompt_tokens_exceeded",
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            "request (40000 tokens) exceeds the available context size (8192 tokens), try increasing it",
            "Context size has been exceeded.",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
            "invalid params, context window exceeds limit (2013)",
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
            "Prompt contains 150000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
            "model_context_window_exceeded",
            "Prompt exceeds max length",
            "tokens in request more than max tokens allowed",
            "prompt too long; exceeded max context length by 1200 tokens",
            "the input length exceeds the context length",
            "input length exceeds maximum context length",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
            "The input (40960 tokens) is longer than the model's context length (32768 tokens).",
            "Requested token count exceeds the model's maximum context length of 131072 tokens.",
            "You passed 9000 input tokens and requested 1 output tokens. However, the model's context length is only 8192 tokens",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081",
            "The prompt is too long: 140000, model maximum context length: 131072",
            "This request exceeds the maximum context length of the model",
            "Input is too long",
            "Request too large for model `x` in organization `o` on tokens per minute (TPM): Limit 6000, Requested 9000",
            "max tokens of 128000 exceeded",
            "输入内容超出模型上下文长度，上下文超长",
            "Prompt 超长",
            "exceed_context_size_error",
            "Prompt contains 9000 tokens, exceeds maximum of 8192",
            "Input length 5000 exceeds maximum length 4096",
            "The conversation is too long, please start a new chat",
            "litellm.ContextWindowExceededError: x",
            // Reports that came later.
            "context_overflow",
            "input length and max_tokens exceed context limit: 150000 + 8192 > 128000",
            "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
            "request (144055 tokens) exceeds the available context size (131072 tokens), try increasing it",
            "Input length (265330 tokens) exceeds the maximum allowed length (262144 tokens).",
            "The prompt contains 40000 tokens, which exceeds the model's context window of 32768",
            "Your prompt is too long. Please reduce the number of tokens",
            "Total tokens (prompt + max_tokens) 140000 exceeds model limit of 131072",
            "length of prompt_tokens (40000) must be less than max_model_len (32768)",
            "prompt_tokens exceeded the limit",
            "the total length of messages exceeds the limit of 28000 tokens",
            "total message token length exceed model limit",
            "Requested tokens (5000) exceed context window of 4096",
            "input token length too long",
            "The text is too long for the model's context",
            "ValidationException: Too many input tokens. Max input tokens: 8192, request input token count: 9000",
            "message too long: the context window of this model is 8192 tokens",
            "sequence length is longer than the specified maximum sequence length for this model (40000 > 32768)",
            "Conversation too long for context window",
            "exceeded maximum tokens per request",
            "请求的token数超过了模型的最大上下文长度",
            "输入长度超过最大长度限制",
            "对话内容过长，请缩短后重试",
        ] {
            assert!(is_told(&text.to_lowercase()), "{text}");
        }
    }

    #[test]
    fn other_limits_are_none_of_the_context() {
        for text in [
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens",
            "Invalid 'user': string too long. Expected a string with maximum length 64",
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
            "Rate limit reached for tokens per minute",
            "You exceeded your current quota",
            "image exceeds 5 MB maximum",
            "temperature must be below 2",
            "The model `x` does not exist",
            "You have exceeded the maximum number of tools",
            "Invalid API key",
            "tools.0.function.name is too long",
            "max_tokens must be less than or equal to 8192, but got 100000",
            "max_completion_tokens exceeds the limit of the model: 16384",
            "You have exceeded the limit of requests",
            "The name of the function is too long",
            "file too long",
        ] {
            assert!(!is_told(&text.to_lowercase()), "{text}");
        }
    }
}
