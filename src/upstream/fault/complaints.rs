//! Recognises which part of a request a provider refuses or misses, by the words of its error.
//!
//! A wrong guess costs one request: nothing is learnt unless the changed request succeeds.

use std::sync::LazyLock;

use regex::Regex;

use super::UpstreamTrait;
use super::sentence::has_any;

/// What a text may say of the request, in the order in which it is tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Complaints {
    pub(crate) traits: Vec<UpstreamTrait>,
    /// Whether it is about the model, and not about this conversation alone.
    pub(crate) is_general: bool,
}

/// Members that carry reasoning.
const REASONING_MEMBERS: [&str; 5] = [
    "reasoning_content",
    "thinking_blocks",
    "reasoning_details",
    "reasoning content",
    "content[].thinking",
];

/// Words with which a member is missed.
const MISSING: [&str; 15] = [
    "missing",
    "passed back",
    "must be passed",
    "must be provided",
    "should be passed",
    "required",
    "must include",
    "must contain",
    "must have",
    "must be present",
    "must not be empty",
    "expected",
    "not found",
    "缺少",
    "缺失",
];

/// Words with which a member is refused.
const REFUSED: [&str; 15] = [
    "unsupported",
    "not support",
    "n't support",
    "not permitted",
    "not allowed",
    "not accept",
    "extra input",
    "additional propert",
    "unknown",
    "unrecogni",
    "unexpected",
    "must not contain",
    "cannot contain",
    "remove",
    "不支持",
];

/// Words of errors about one conversation: a signature of another account, a changed block.
const OF_ONE_CONVERSATION: [&str; 4] = ["signature", "cannot be modified", "encrypted", "expired"];

/// Words of errors about one picture.
const OF_ONE_PICTURE: [&str; 9] = [
    "unsupported image",
    "invalid image",
    "valid image",
    "image is valid",
    "exceed",
    "too large",
    "dimension",
    "corrupt",
    "decode",
];

/// Tools as a whole. A path such as `tools[0].function` is about one of them.
const TOOLS: &str = r"(?:\btools(?:[^.\[\w]|$)|\btool[ _-](?:use|calls?|calling|choice)\b|\bfunctions?[ _-]?call(?:s|ing)?\b|\bfunctions\b|工具|函数)";

/// Words with which a model or a server does without something.
const WITHOUT: &str = r"(?:\bnot? (?:currently |yet |been )?(?:support|enable|available|allowed|permitted|implemented|possible|have|accept)|n['’]t (?:currently |yet )?(?:support|allow|have|accept)|\bunsupported|\bno (?:\w+ ){1,4}supports?\b|cannot be used|can['’]?t be used|extra inputs|unrecogni[sz]ed|unknown (?:parameter|field|name|argument)|unexpected (?:keyword|field|parameter|argument)|requires? --|is disabled|lacks? support|without support|不支持)";

static NO_TOOLS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!("{TOOLS}.{{0,100}}{WITHOUT}|{WITHOUT}.{{0,100}}{TOOLS}"))
        .expect("a regular expression")
});

/// The definition of one tool, be it by its place or by its schema.
static ONE_TOOL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\btools?[.\[]\d+|invalid (?:json )?schema for (?:function|tool)|tool (?:input )?schema|input_schema|function_declarations?|unsupported_keyword|tool_count_limit|too many (?:tools|functions)|function\.parameters|'tools'.{0,20}(?:array )?too (?:long|many)|(?:maximum (?:allowed )?number|number) of (?:tools|functions|function declarations)|(?:more than|at most|up to|limit of) \d+ (?:tools|functions|function declarations)",
    )
    .expect("a regular expression")
});

/// A stream where an answer in one piece is wanted.
static NO_STREAMING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"must be verified to stream|\bstream\b.{{0,30}}(?:does not support true|must be (?:set to )?false)|\bstream(?:ing)?\b[^_].{{0,60}}{WITHOUT}|{WITHOUT}.{{0,60}}\bstream(?:ing)?\b(?:[^_]|$)|不支持流式"
    ))
    .expect("a regular expression")
});

/// An answer in one piece where a stream is wanted.
static ONLY_STREAMING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"only supports? (?:the )?stream|stream(?:ing)?(?: mode)? is required|\brequires? stream|\bnon[- ]?stream(?:ing|ed)?\b.{{0,40}}{WITHOUT}|{WITHOUT}.{{0,40}}\bnon[- ]?stream|stream\b.{{0,20}}must be (?:set to )?true|(?:please|must) (?:enable|use|set) (?:the )?stream|(?:只|仅)支持流式"
    ))
    .expect("a regular expression")
});

/// Instructions in a message of their own.
static NO_SYSTEM: LazyLock<Regex> = LazyLock::new(|| {
    const SYSTEM: &str =
        r"\b(?:system|developer)[ _]?(?:roles?|messages?|prompts?|instructions?)\b";
    Regex::new(&format!(
        r"{SYSTEM}.{{0,60}}{WITHOUT}|{WITHOUT}.{{0,60}}{SYSTEM}|does not support '(?:system|developer)'|(?:unsupported|invalid|unexpected|unknown) role:? *['\x22`]?(?:system|developer)\b|only user and assistant roles are supported"
    ))
    .expect("a regular expression")
});

/// A content that is null, as messages with calls have it.
static NULL_CONTENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"content type: <nil>|\bcontent\b.{0,12}field must be a string or an array|\bcontent\b[^.]{0,60}(?:got|received|found|was|is|but) (?:an? )?(?:null|none|nil)\b|\bcontent\b[^.]{0,30}(?:must|should|cannot|can't|can|may) ?(?:not)? be (?:null|none|nil)\b|missing field `content`|\bcontent\b\W{1,4}(?:input should be a valid string|none is not)",
    )
    .expect("a regular expression")
});

/// Pictures.
static NAMES_IMAGES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bimages?\b|image_url|input_image|\bvision\b|multi-?modal|\bpictures?\b|mmproj|图片|图像|多模态")
        .expect("a regular expression")
});

/// Pictures, and that the model takes none at all.
static NO_IMAGES: LazyLock<Regex> = LazyLock::new(|| {
    const IMAGES: &str = r"(?:\bimages?\b|image_url|input_image|\bvision\b|multi-?modal|\bpictures?\b|图片|图像|多模态)";
    Regex::new(&format!(
        r"{IMAGES}.{{0,80}}{WITHOUT}|{WITHOUT}.{{0,80}}{IMAGES}|unknown variant `image_url`|at most 0 images?|not a (?:multi-?modal|vision)|missing data required for image|(?:cannot|can't|unable to) (?:see|view|read|process|handle|accept) images|only (?:supports?|accepts?) text|image_url is only supported|content'?\W{{0,12}}(?:value )?(?:must|should|expected)(?: to)?(?: be)? (?:a |valid )*string|can only concatenate str"
    ))
    .expect("a regular expression")
});

static NAMES_TOOLS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(TOOLS).expect("a regular expression"));

/// A `response_format`, in the words of several providers.
static NAMES_FORMAT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bjson\b|json[_ ](?:mode|object|schema)|response[ _-]?(?:format|schema|mime)|mime type|structured outputs?|structured generation|\bschema\b")
        .expect("a regular expression")
});

/// Words with which two things do not go together.
const CONFLICT: [&str; 17] = [
    "unsupported",
    "not support",
    "n't support",
    "cannot",
    "can't",
    "can not",
    "incompatible",
    "not compatible",
    "same time",
    "together",
    "combin",
    "simultaneous",
    "both",
    "exclusive",
    "conflict",
    "not allowed",
    "not permitted",
];

impl Complaints {
    /// Those of a refused request.
    pub(super) fn of(message: &str) -> Self {
        let text = message.to_lowercase();
        let has = |words: &[&str]| has_any(&text, words);
        let mut traits = Vec::new();
        if text.contains("eager_input_streaming") {
            traits.push(UpstreamTrait::RefusesEagerInput);
        }
        if has(&["stream_options", "include_usage"]) {
            traits.push(UpstreamTrait::RefusesStreamOptions);
        }
        traits.extend(about_reasoning(&text));
        if traits.is_empty() {
            if ONLY_STREAMING.is_match(&text) {
                traits.push(UpstreamTrait::MissesStreaming);
            } else if NO_STREAMING.is_match(&text) {
                traits.push(UpstreamTrait::RefusesStreaming);
            }
            if NULL_CONTENT.is_match(&text) {
                traits.push(UpstreamTrait::RefusesNullContent);
            }
            if NO_SYSTEM.is_match(&text) {
                traits.push(UpstreamTrait::RefusesSystem);
            }
            if NAMES_TOOLS.is_match(&text) && NAMES_FORMAT.is_match(&text) && has(&CONFLICT) {
                traits.push(UpstreamTrait::RefusesToolsBesideFormat);
            }
            if NO_TOOLS.is_match(&text) {
                traits.push(UpstreamTrait::RefusesTools);
            }
        }
        let refuses_images = NO_IMAGES.is_match(&text);
        // One picture may be too large, or broken: another conversation has others.
        let is_of_one_picture = !refuses_images || has(&OF_ONE_PICTURE);
        if refuses_images || NAMES_IMAGES.is_match(&text) {
            traits.push(UpstreamTrait::RefusesImages);
        }
        let is_about_pictures = traits == [UpstreamTrait::RefusesImages];
        let is_of_one_request = has(&OF_ONE_CONVERSATION) || is_about_pictures && is_of_one_picture;
        let is_general = !is_of_one_request;
        // Others may have other tools.
        if traits.is_empty() && ONE_TOOL.is_match(&text) {
            return Self { traits: vec![UpstreamTrait::RefusesTools], is_general: false };
        }
        Self { traits, is_general }
    }

    /// Those of a failure. Only what nobody says of a failure counts.
    pub(super) fn of_failure(message: &str) -> Self {
        let mut complaints = Self::of(message);
        let is_general = complaints.is_general;
        complaints.traits.retain(|learnt| match learnt {
            UpstreamTrait::RefusesTools
            | UpstreamTrait::RefusesToolsBesideFormat
            | UpstreamTrait::RefusesStreaming
            | UpstreamTrait::MissesStreaming
            | UpstreamTrait::RefusesSystem => true,
            UpstreamTrait::RefusesImages => is_general,
            _ => false,
        });
        complaints
    }
}

/// What a text says of reasoning. The bare word counts only in quotes, since ordinary sentences
/// contain it too, and then it may also be a field of the request's own.
fn about_reasoning(text: &str) -> Vec<UpstreamTrait> {
    if has_any(text, &REASONING_MEMBERS) {
        if has_any(text, &MISSING) && !has_any(text, &REFUSED) {
            return vec![UpstreamTrait::MissesReasoning, UpstreamTrait::MissesReasoningText];
        }
        return vec![UpstreamTrait::RefusesReasoning];
    }
    let is_quoted = |quote: char| text.contains(&format!("{quote}reasoning{quote}"));
    let is_named = ['\'', '"', '`'].into_iter().any(is_quoted) || text.contains(".reasoning'");
    if is_named { vec![UpstreamTrait::RefusesReasoning] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::UpstreamTrait::{
        MissesReasoning, MissesReasoningText, MissesStreaming, RefusesEagerInput, RefusesImages,
        RefusesNullContent, RefusesReasoning, RefusesStreamOptions, RefusesStreaming,
        RefusesSystem, RefusesTools, RefusesToolsBesideFormat,
    };
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &[UpstreamTrait]) {
        assert_eq!(Complaints::of(message).traits, expected, "{message}");
    }

    #[test]
    fn knows_a_refusal_of_reasoning_by_the_member_it_names() {
        for text in [
            "litellm.BadRequestError: GroqException - property 'reasoning_content' is unsupported",
            "messages.1.thinking_blocks: extra inputs are not permitted",
            "Unknown name \"reasoning_details\"",
            "Unrecognized field 'reasoning'",
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is unsupported)]",
            "User messages cannot contain reasoning content. Please remove the reasoning content.",
        ] {
            check(text, &[RefusesReasoning]);
        }
        for text in ["'reasoning_effort' is unsupported", "not for reasoning models", "no"] {
            check(text, &[]);
        }
    }

    #[test]
    fn wire_12_knows_that_reasoning_is_missing() {
        for text in [
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            "Missing `reasoning_content` field in the assistant message at message index 1.",
            "reasoning_content is required for assistant messages with tool_calls",
            "messages[51]: assistant message with tool_calls must include reasoning_content",
            "messages[3]: reasoning_content must not be empty",
            "The content[].thinking in the thinking mode must be passed back to the API.",
            "Param Incorrect: The reasoning_content in the thinking mode must be passed back to the API.",
        ] {
            check(text, &[MissesReasoning, MissesReasoningText]);
        }
    }

    #[test]
    fn wire_24_knows_a_model_without_tools() {
        for text in [
            "registry.ollama.ai/library/gemma:2b does not support tools",
            "No endpoints found that support tool use. To learn more about provider routing, visit: x",
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "tools param requires --jinja flag",
            "Function calling is not enabled for models/gemma-3-27b-it",
            "`tool calling` is not supported with this model",
            "This model doesn't support tool use.",
            "deepseek-reasoner does not support Function Calling",
            "Unrecognized request argument supplied: tools",
            "Unsupported parameter: 'tools'",
            "litellm.UnsupportedParamsError: perplexity does not support parameters: ['tools'], for model=x",
            "tools: Extra inputs are not permitted",
            "该模型不支持工具调用",
        ] {
            check(text, &[RefusesTools]);
        }
        for text in [
            "No connected provider supports tool calling for this model.",
            "model features function calling not support",
        ] {
            check(text, &[RefusesTools]);
        }
        for text in [
            "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            "Unexpected role 'user' after role 'tool'",
            "temperature is not supported",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn a_definition_that_is_refused_costs_one_turn_its_tools() {
        for text in [
            "tools.3.custom.input_schema: JSON schema is invalid",
            "tools[0].function.parameters: oneOf is not supported",
            "Invalid schema for function 'mcp__a__b': array schema missing items",
            "GenerateContentRequest.tools[0].function_declarations[0].parameters: must be specified",
            "unsupported_keyword",
        ] {
            let expected = Complaints { traits: vec![RefusesTools], is_general: false };
            assert_eq!(Complaints::of(text), expected, "{text}");
        }
    }

    #[test]
    fn wire_23_knows_that_tools_and_a_format_do_not_go_together() {
        for text in [
            "Function calling with a response mime type: 'application/json' is unsupported",
            "json mode cannot be combined with tool/function calling",
            "You cannot specify response format and function call at the same time",
            "response_format `json_schema` and tools are mutually exclusive",
            "Groq model 'x' does not support native structured outputs. LiteLLM uses a tool-calling \
             workaround for structured outputs on this model, which is incompatible with \
             user-provided tools.",
        ] {
            let found = Complaints::of(text).traits;
            assert_eq!(found.first(), Some(&RefusesToolsBesideFormat), "{text}");
        }
    }

    #[test]
    fn wire_24_knows_a_model_without_pictures() {
        for text in [
            "No endpoints found that support image input",
            "Failed to deserialize the JSON body into the target type: messages[2]: unknown variant `image_url`, expected `text`",
            "Invalid content type. image_url is only supported by certain models.",
            "This model does not support image inputs",
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "At most 0 image(s) may be provided in one prompt.",
            "llama3 is not a multimodal model",
            "'messages.3' : for 'role:user' the following must be satisfied[('messages.3.content' : value must be a string)]",
            "this model is missing data required for image input",
            "此模型不支持图像输入。请尝试其他模型",
            "can only concatenate str (not \"list\") to str",
        ] {
            let expected = Complaints { traits: vec![RefusesImages], is_general: true };
            assert_eq!(Complaints::of(text), expected, "{text}");
        }
        for text in [
            "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6 > 5",
            "Could not process image",
            "You uploaded an unsupported image. Please make sure your image is valid.",
            "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        ] {
            let expected = Complaints { traits: vec![RefusesImages], is_general: false };
            assert_eq!(Complaints::of(text), expected, "{text}");
        }
    }

    #[test]
    fn wire_24_knows_how_a_model_answers_and_takes_instructions() {
        for text in [
            "Your organization must be verified to stream this model. Please go to: x",
            "Unsupported value: 'stream' does not support true with this model.",
            "This model does not support streaming",
            "Streaming is not supported for this model",
            "stream must be false",
            "该模型不支持流式输出",
        ] {
            check(text, &[RefusesStreaming]);
        }
        check(
            "This model doesn't support tool use in streaming mode.",
            &[RefusesStreaming, RefusesTools],
        );
        for text in [
            "This model only support stream mode, please enable the stream parameter to access the model. ",
            "Non-streaming calls are not supported for this model",
            "This endpoint does not support non-streaming requests",
            "Streaming is required for operations that may take longer than 10 minutes",
            "stream must be set to true",
        ] {
            check(text, &[MissesStreaming]);
        }
        for text in [
            "Developer instruction is not enabled for models/gemma-3-27b-it",
            "System role not supported",
            "400 The input system_instruction is not supported.",
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            "invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user",
            "Only user and assistant roles are supported!",
        ] {
            check(text, &[RefusesSystem]);
        }
        for text in ["stream idle timeout", "the upstream system is busy", "system error"] {
            check(text, &[]);
        }
    }

    #[test]
    fn wire_28_knows_that_null_is_refused_for_a_content() {
        for text in [
            "invalid message content type: <nil>",
            "Invalid 'content': 'content' field must be a string or an array of objects.",
            "Invalid type for 'messages[1].content': expected one of a string or array of objects, but got null instead.",
            "Failed to deserialize: missing field `content`",
            "messages.1.content: Input should be a valid string",
            "content must not be null",
        ] {
            check(text, &[RefusesNullContent]);
        }
        check("text content blocks must be non-empty", &[]);
    }

    #[test]
    fn more_tools_than_a_provider_takes_cost_one_turn_its_tools() {
        for text in [
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
            "The maximum number of tools is 64",
            "at most 128 tools are supported",
            "At most 512 function declarations can be specified.",
        ] {
            assert_eq!(Complaints::of(text).traits, [RefusesTools], "{text}");
        }
    }

    #[test]
    fn a_member_of_ours_is_known_by_its_name() {
        check(
            "Unknown parameter: 'tools[0].function.eager_input_streaming'.",
            &[RefusesEagerInput],
        );
        check("stream_options: Extra inputs are not permitted", &[RefusesStreamOptions]);
        check(
            "[{'type': 'extra_forbidden', 'loc': ['body', 'stream_options', 'include_usage']}]",
            &[RefusesStreamOptions],
        );
    }

    #[test]
    fn a_failure_is_a_refusal_only_where_it_is_plain() {
        let of = |text: &str| Complaints::of_failure(text).traits;
        assert_eq!(of("tools param requires --jinja flag"), [RefusesTools]);
        assert_eq!(of("'reasoning_content'"), []);
        assert_eq!(of("CUDA out of memory"), []);
    }

    #[test]
    fn what_is_about_one_conversation_is_no_lesson() {
        let text = "messages.1.thinking_blocks: Invalid `signature` in `thinking` block";
        assert_eq!(
            Complaints::of(text),
            Complaints { traits: vec![RefusesReasoning], is_general: false }
        );
        assert!(Complaints::of("'reasoning_content' is unsupported").is_general);
    }
}
