//! Reads what a person decided about the asks of an open round: from the store, where it was
//! decided over REST, or from the reply in the request.

use super::assemble::ReplyForm;
use super::recorder::json;
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::asking::choice::{deny_all, is_expired};
use crate::agent::asking::dialog::{ASK_USER, read_dialog_answer, read_toolhand_approval};
use crate::agent::asking::outcome::ReplyOutcome;
use crate::agent::asking::reply::{ReplyTarget, read_reply};
use crate::agent::beginning::{AskingChannel, Decided};
use crate::agent::record::{Asked, OpenRound};
use crate::execution::ask::{Decision, GrantScope};
use crate::ids::ApprovalId;
use crate::permissions::RuleGrant;
use crate::store::rows::{ApprovalRow, Change};

/// What is known about the asks of an open round.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) decided: Vec<Decided>,
    /// Those of them that are not in the store yet. The commit fails if another request has
    /// decided one of them first.
    pub(super) new: Vec<Change>,
    /// The rules that the reply keeps.
    pub(super) rules: Vec<RuleGrant>,
    /// The reply leaves these asks out, or answers only the first of their questions.
    pub(super) left_out: Vec<Asked>,
    /// Whether a reply to what is asked again must carry its code.
    pub(super) code_requirement: CodeRequirement,
}

/// The question that a request may reply to.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenQuestion<'a> {
    pub(super) open: &'a OpenRound,
    /// Its text, as the person was shown it.
    pub(super) text: &'a str,
    /// How a person can be asked in this request.
    pub(super) channel: AskingChannel,
}

/// `rows` are the approvals of the round. What they say stands, whatever the reply says, as long
/// as the approval is valid.
pub(super) fn decisions(
    question: OpenQuestion<'_>,
    rows: &[ApprovalRow],
    reply: Option<&ReplyForm>,
    now_ms: i64,
) -> Decisions {
    let open = question.open;
    let code_requirement =
        reply.map_or(CodeRequirement::Optional, |reply| code_requirement(open, reply));
    let mut known = Decisions { code_requirement, ..Decisions::default() };
    let mut undecided = Vec::new();
    for asked in &open.asked {
        if rows.iter().all(|row| row.id != asked.id) {
            // It was deleted with the session that asked first.
            let (approval, slot) = (asked.id.clone(), asked.slot);
            known.decided.push(Decided { approval, slot, decision: Decision::Expired });
            continue;
        }
        match recorded(asked, rows) {
            Some(kept) if is_expired(asked, now_ms) => {
                known.decided.push(Decided { decision: Decision::Expired, ..kept });
            }
            Some(kept) => known.decided.push(kept),
            None => undecided.push(asked.clone()),
        }
    }
    let read = reply.map(|reply| read(question, &undecided, reply, now_ms));
    let ReplyOutcome { decided, left_out } = read.unwrap_or_default();
    known.left_out = left_out;
    let change = |decided: &Decided| decide(decided.approval.clone(), &decided.decision);
    known.new = decided.iter().map(change).collect();
    let kept = |decided: &Decided| {
        let asked = open.asked.iter().find(|asked| asked.id == decided.approval)?;
        rules_to_keep(asked, &decided.decision)
    };
    known.rules = decided.iter().filter_map(kept).collect();
    known.decided.extend(decided);
    known
}

/// The rules that the person was shown, if they are to be kept.
pub(super) fn rules_to_keep(asked: &Asked, decision: &Decision) -> Option<RuleGrant> {
    match decision {
        Decision::Allow { scope: GrantScope::Rule, rules, .. } => {
            asked.ask.grant_of(rules).cloned()
        }
        _ => None,
    }
}

/// Whether a person has decided all asks of the round over REST.
pub(super) fn are_decided(open: &OpenRound, rows: &[ApprovalRow]) -> bool {
    !open.asked.is_empty() && open.asked.iter().all(|asked| recorded(asked, rows).is_some())
}

fn recorded(asked: &Asked, rows: &[ApprovalRow]) -> Option<Decided> {
    let row = rows.iter().find(|row| row.id == asked.id)?;
    let decision = serde_json::from_slice(row.decision.as_deref()?).ok()?;
    Some(Decided { approval: asked.id.clone(), slot: asked.slot, decision })
}

/// Whether the reply must carry a code. The bare choice counts only behind the question itself.
fn code_requirement(open: &OpenRound, reply: &ReplyForm) -> CodeRequirement {
    let asked =
        open.question.map_or(CodeRequirement::Required, |question| question.code_requirement);
    match reply {
        ReplyForm::Message { is_behind_question: false, .. } => CodeRequirement::Required,
        ReplyForm::Message { is_behind_question: true, .. } => asked,
        // A dialog is answered by the id of its call.
        ReplyForm::Answers(_) => CodeRequirement::Optional,
    }
}

fn read(
    question: OpenQuestion<'_>,
    undecided: &[Asked],
    reply: &ReplyForm,
    now_ms: i64,
) -> ReplyOutcome {
    let OpenQuestion { open, text, channel } = question;
    match reply {
        // Only REST decides: words are remarks.
        ReplyForm::Message { words, .. } if channel == AskingChannel::Rest => {
            ReplyOutcome { decided: deny_all(undecided, words), left_out: Vec::new() }
        }
        ReplyForm::Message { words, .. } => {
            let is_decided = |asked: &&Asked| undecided.iter().all(|other| other.id != asked.id);
            let decided: Vec<Asked> = open.asked.iter().filter(is_decided).cloned().collect();
            let to = ReplyTarget {
                asked: undecided,
                decided: &decided,
                question: text,
                code_requirement: code_requirement(open, reply),
            };
            read_reply(to, words, now_ms)
        }
        ReplyForm::Answers(answers) => {
            let mut read = ReplyOutcome::default();
            for (place, content) in answers {
                let ReplyOutcome { decided, left_out } =
                    read_call_answer(open, undecided, *place, content, now_ms);
                read.decided.extend(decided);
                read.left_out.extend(left_out);
            }
            // What no dialog has shown yet.
            let is_shown = |asked: &&Asked| {
                let is_it =
                    |place: &usize| open.asked.get(*place).is_some_and(|it| it.id == asked.id);
                open.asked_by.iter().any(|call| call.asks.iter().any(is_it))
            };
            read.left_out.extend(undecided.iter().filter(|asked| !is_shown(asked)).cloned());
            read
        }
    }
}

/// What is in the answer to one call by which the client's own tool asked.
fn read_call_answer(
    open: &OpenRound,
    undecided: &[Asked],
    place: usize,
    content: &str,
    now_ms: i64,
) -> ReplyOutcome {
    let Some(call) = open.asked_by.get(place) else { return ReplyOutcome::default() };
    let asks = call.asks.iter().filter_map(|place| open.asked.get(*place));
    let asks: Vec<&Asked> =
        asks.filter(|asked| undecided.iter().any(|other| other.id == asked.id)).collect();
    if call.tool == ASK_USER {
        return read_dialog_answer(&asks, content, now_ms);
    }
    let decided = asks.into_iter().map(|asked| read_toolhand_approval(asked, content, now_ms));
    ReplyOutcome { decided: decided.collect(), left_out: Vec::new() }
}

/// Fails to be committed if the approval has been decided before.
pub(super) fn decide(approval: ApprovalId, decision: &Decision) -> Change {
    Change::Decide { approval, decision: json(decision) }
}

/// What a person is asked. What cannot be read is logged.
pub(super) fn asked(row: &ApprovalRow) -> Option<Asked> {
    serde_json::from_slice(&row.body)
        .map_err(|error| tracing::error!(approval = %row.id, %error, "cannot be read"))
        .ok()
}
