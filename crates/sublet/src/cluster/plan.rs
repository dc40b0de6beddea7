//! `sublet cluster plan`: who would be advised to borrow of whom now.

use sublet_client::messages::ClusterPlan;

use super::tables;
use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::formatting::json;

/// How to show the plan.
#[derive(clap::Args)]
pub(super) struct PlanArgs {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

impl PlanArgs {
    /// The plan as text.
    pub(super) fn text(&self) -> Result<String, Exit> {
        let plan = self.daemon.call(|admin| admin.cluster_plan())?;
        Ok(match self.json {
            true => json(&plan),
            false => page(&plan),
        })
    }
}

fn page(plan: &ClusterPlan) -> String {
    let policy = match plan.placement.is_empty() {
        true => String::new(),
        false => format!("{:<9} {}\n", "policy", plan.placement),
    };
    let advice = match plan.advice.is_empty() {
        true => {
            let why = plan.why_none.as_deref().unwrap_or("nobody wants memory");
            format!("{:<9} nothing: {why}\n", "advice")
        }
        false => format!("\n{}", tables::planned(&plan.advice)),
    };
    format!("{policy}{advice}")
}

#[cfg(test)]
mod tests {
    use sublet_client::messages::VERSION;

    use super::super::tables::tests::advice;
    use super::*;

    #[test]
    fn a_plan_is_the_policy_and_a_line_for_each_piece_of_advice() {
        let mut plan = ClusterPlan {
            version: VERSION,
            placement: "spread part=25".to_owned(),
            advice: vec![advice()],
            why_none: None,
        };
        let text = page(&plan);
        assert!(text.starts_with("policy    spread part=25\n\n"), "{text}");
        assert!(text.contains("at most 20 come from one"), "{text}");
        plan.advice.clear();
        plan.why_none = Some("all lenders keep what they have".to_owned());
        assert_eq!(
            page(&plan),
            "policy    spread part=25\nadvice    nothing: all lenders keep what they have\n"
        );
        plan.placement.clear();
        plan.why_none = Some("b leads: ask there".to_owned());
        assert_eq!(page(&plan), "advice    nothing: b leads: ask there\n");
    }
}
