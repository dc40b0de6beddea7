//! The fields of the messages by which a node shows how its leader sees the cluster. Nothing is decided by them.

use serde::{Deserialize, Serialize};
use sublet_policy::placement::{AdviceReason, ShortageReason};

use super::bodies::{BlockCount, CountError, within};
use super::{VIEW_ADVICE_MAX, VIEW_ALARMS_MAX, VIEW_NODES_MAX, VIEW_TEXT_BYTES_MAX};
use crate::ids::{NodeName, RackName, Term};

/// A list of `MAX` entries at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", into = "Vec<T>")]
#[serde(bound(
    serialize = "T: Clone + Serialize",
    deserialize = "T: Deserialize<'de>"
))]
pub struct ListUpTo<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for ListUpTo<T, MAX> {
    fn default() -> ListUpTo<T, MAX> {
        ListUpTo(Vec::new())
    }
}

impl<T, const MAX: usize> ListUpTo<T, MAX> {
    /// The first of these entries, as many as there may be.
    pub fn first(entries: impl IntoIterator<Item = T>) -> ListUpTo<T, MAX> {
        ListUpTo(entries.into_iter().take(MAX).collect())
    }

    /// The entries.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> TryFrom<Vec<T>> for ListUpTo<T, MAX> {
    type Error = CountError;

    fn try_from(entries: Vec<T>) -> Result<ListUpTo<T, MAX>, CountError> {
        within("entries", entries.len() as u64, MAX as u64).map(|()| ListUpTo(entries))
    }
}

impl<T, const MAX: usize> From<ListUpTo<T, MAX>> for Vec<T> {
    fn from(list: ListUpTo<T, MAX>) -> Vec<T> {
        list.0
    }
}

/// A text of [`VIEW_TEXT_BYTES_MAX`] bytes at most, in printable ASCII. What else a peer sends is a question mark: people
/// see it on terminals, which obey some characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShortText(String);

impl ShortText {
    /// The text, or nothing if it is too long.
    pub fn or_nothing(text: String) -> ShortText {
        ShortText::try_from(text).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ShortText {
    type Error = CountError;

    fn try_from(text: String) -> Result<ShortText, CountError> {
        within("bytes", text.len() as u64, VIEW_TEXT_BYTES_MAX as u64)?;
        let printable = text.chars().map(|sign| match sign {
            ' '..='~' => sign,
            _ => '?',
        });
        Ok(ShortText(printable.collect()))
    }
}

impl From<ShortText> for String {
    fn from(text: ShortText) -> String {
        text.0
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A node asks its leader how the cluster stands: for the first nodes by name, or for those after a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewQuery {
    /// A number for the answer to repeat.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tag: u64,
    /// The last name that it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<NodeName>,
}

/// Whether a node takes part, as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViewState {
    /// It is a member and has not reported yet.
    Expected,
    /// It reports.
    Active,
    /// It leaves.
    Leaving,
    /// It left, or was silent for long.
    Gone,
    /// It is silent, or what a newer leader calls otherwise.
    #[serde(other)]
    Away,
}

/// A node as its leader sees it, in blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewNode {
    /// Its name.
    pub name: NodeName,
    /// Whether it takes part.
    pub state: ViewState,
    /// For how long, milliseconds.
    pub for_millis: u64,
    /// Where it stands, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<RackName>,
    /// What its arena may have.
    pub total: BlockCount,
    /// What of that nobody uses.
    pub free: BlockCount,
    /// What it would lend beyond what it has lent.
    pub lendable: BlockCount,
    /// What it wants beyond what it has.
    pub wanted: BlockCount,
    /// What it has lent.
    pub lent: BlockCount,
    /// What it has borrowed.
    pub borrowed: BlockCount,
}

/// Advice that a leader gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewAdvice {
    /// How long ago, milliseconds.
    pub age_millis: u64,
    /// Who should borrow.
    pub borrower: NodeName,
    /// Of whom.
    pub lender: NodeName,
    /// How much.
    pub blocks: BlockCount,
    /// Why of this lender.
    pub why: AdviceReason,
    /// Why the borrower is to have less than it wants, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageReason>,
}

/// A pair whose counts have differed for too long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewAlarm {
    /// The lender.
    pub lender: NodeName,
    /// The borrower.
    pub borrower: NodeName,
    /// What the lender counts.
    pub lent: BlockCount,
    /// What the borrower counts.
    pub borrowed: BlockCount,
    /// For how long, milliseconds.
    pub for_millis: u64,
}

/// A part of how the cluster stands: some nodes by name. The last part has the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewPart {
    /// The number of the question.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tag: u64,
    /// The leader's term.
    pub term: Term,
    /// Nodes after the name that was asked for.
    pub nodes: ListUpTo<ViewNode, VIEW_NODES_MAX>,
    /// Whether there are more.
    #[serde(default)]
    pub more: bool,
    /// The latest advice, the oldest first.
    #[serde(default)]
    pub advice: ListUpTo<ViewAdvice, VIEW_ADVICE_MAX>,
    /// Pairs whose counts differ.
    #[serde(default)]
    pub alarms: ListUpTo<ViewAlarm, VIEW_ALARMS_MAX>,
    /// The placement policy and its knobs.
    #[serde(default)]
    pub placement: ShortText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_peer_moves_no_cursor() {
        let told = r#""spread\u001b[2J\u009b1m\u202e\n, share=4""#;
        let text: ShortText = serde_json::from_str(told).expect("a short text");
        assert_eq!(text.as_str(), "spread?[2J?1m??, share=4");
        let long = "a".repeat(VIEW_TEXT_BYTES_MAX + 1);
        assert_eq!(ShortText::or_nothing(long), ShortText::default());
    }
}
