//! The cells of a scenario that the simulator ns-2 can run.

use super::reference::Ns2Spec;
use super::spec::{Cell, FlowSpec, Sends, Variable};
use super::whole::Scenario;
use shared::failure::Failure;

impl Scenario {
    /// The scenario for the simulator: the cells whose flows all have an agent, and new cells for agents that are not a
    /// variant of the file. The new cells are otherwise like those of the baseline.
    ///
    /// Expected numbers are left out, because they are for algorithms on a kernel.
    ///
    /// # Errors
    /// No `[ns2]`, or no cell with agents for all its flows.
    pub fn simulated(&self) -> Result<Scenario, Failure> {
        let Some(spec) = &self.ns2 else {
            let what =
                format!("cannot simulate \"{}\": it has no [ns2], which names the simulator's agents", self.name);
            return Err(Failure::usage(what).hint("`tccc run --explain ns2` describes it"));
        };
        let mut scenario = Scenario { expected: Vec::new(), ..self.clone() };
        if let Some(series) = self.series_variable() {
            scenario.add_only_simulated(spec, series);
        }
        let can_send = |cell: &Cell, flow: &FlowSpec| {
            matches!(flow.sends, Sends::Datagrams(_)) || spec.agent(&cell.label(flow)).is_some()
        };
        scenario.cells.retain(|cell| cell.flows.iter().all(|flow| can_send(cell, flow)));
        if scenario.cells.is_empty() {
            let names: Vec<&str> = spec.agents.0.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("cannot simulate \"{}\": no cell has agents for all its flows", self.name);
            return Err(Failure::usage(what).hint(format!("[ns2] has agents for {}", names.join(", "))));
        }
        let Scenario { sweep, cells, .. } = &mut scenario;
        for Variable { name, values } in sweep {
            values.retain(|value| cells.iter().any(|cell| cell.at.get(name) == Some(value)));
        }
        Ok(scenario)
    }

    /// Adds cells for agents that are not a variant of the file.
    fn add_only_simulated(&mut self, spec: &Ns2Spec, series: &str) {
        let labels = |cell: &Cell| cell.flows.iter().map(|flow| cell.label(flow)).collect::<Vec<_>>();
        let known: Vec<String> = self.cells.iter().flat_map(labels).collect();
        let values = self.values_of(series);
        let baseline = self.report.baseline.as_ref().filter(|baseline| values.contains(baseline));
        let like = baseline.or(values.first()).cloned().unwrap_or_default();
        let own = spec.agents.0.iter().map(|(name, _)| name).filter(|name| !known.contains(name));
        for name in own {
            let of_like = self.cells.iter().filter(|cell| cell.at.get(series) == Some(&like));
            let added: Vec<Cell> = of_like.map(|cell| renamed(cell, series, name)).collect();
            self.cells.extend(added);
            let variables = self.sweep.iter_mut().filter(|variable| variable.name == series);
            variables.for_each(|variable| variable.values.push(name.clone()));
        }
    }
}

/// The same cell with another value of the compared variable.
fn renamed(cell: &Cell, series: &str, name: &str) -> Cell {
    let mut cell = cell.clone();
    cell.at.insert(series.to_owned(), name.to_owned());
    for flow in cell.flows.iter_mut().filter(|flow| flow.compared) {
        flow.algorithm = name.to_owned();
        flow.tunables.clear();
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::document::link::Nodes;
    use crate::scenario::tests;

    const AGENTS: &str = "[ns2]\nagents={Linux=\"TCP/Linux\",SACK=\"TCP/Sack1\",FACK=\"TCP/Fack\"}\n";

    /// A flow with three variants. `beside` is added to the scenario, `only` to two of the variants.
    fn compared(beside: &str, only: &str) -> Scenario {
        let sweep = "[sweep]\nvariant=[\"Linux\",\"SACK\",\"DTCP\"]\nloss=[\"0\",\"1%\"]\n";
        let variants = format!(
            "[variant.SACK]\nalgorithm=\"reno\"\nwindow_cap=50\n{only}\n\
             [variant.Linux]\nalgorithm=\"reno\"\ninitial_ssthresh=40\n{only}\n\
             [variant.DTCP]\nalgorithm=\"dtcp\"\n[report]\nbaseline=\"SACK\"\n"
        );
        let link = tests::link(["s", "r"], "loss=\"$loss\"");
        tests::scenario(1, &[sweep, &link, &tests::flow("data", ["s", "r"], ""), &variants, beside].concat())
    }

    #[test]
    fn simulated_scenario_has_the_cells_with_agents_and_those_only_the_simulator_has() {
        let scenario = compared(&format!("{AGENTS}error_models=[[\"r\",\"s\"]]\n"), "");
        assert_eq!(scenario.ns2.as_ref().unwrap().error_models, Some(vec![Nodes(["r".to_owned(), "s".to_owned()])]));
        let simulated = scenario.simulated().unwrap();
        assert_eq!(simulated.values_of("variant"), ["Linux", "SACK", "FACK"]);
        assert_eq!(simulated.values_of("loss"), ["0", "1%"]);
        assert_eq!(simulated.cells.len(), 6);
        let caps: Vec<_> = simulated.cells.iter().map(|cell| cell.flows[0].window_cap).collect();
        assert_eq!(caps, [None, None, Some(50), Some(50), Some(50), Some(50)], "as the baseline's");
        assert_eq!(simulated.cells[5].label(&simulated.cells[5].flows[0]), "FACK");
    }

    #[test]
    fn flows_beside_need_an_agent_too() {
        let beside = tests::flow("beside", ["s", "r"], "algorithm=\"cubic\"");
        let compared = |agents: &str| compared(&(beside.clone() + agents), "flows=[\"data\"]");
        let refused = compared(AGENTS).simulated().unwrap_err();
        assert_eq!(refused.hint.as_deref(), Some("[ns2] has agents for Linux, SACK, FACK"));
        let simulated = compared(&AGENTS.replace("={", "={cubic=\"TCP/Linux cubic\",")).simulated().unwrap();
        assert_eq!(simulated.values_of("variant"), ["Linux", "SACK", "FACK"], "cubic is not compared");
    }

    #[test]
    fn scenario_without_agents_cannot_be_simulated() {
        let refused = compared("", "").simulated().unwrap_err();
        assert_eq!(refused.what, "cannot simulate \"x\": it has no [ns2], which names the simulator's agents");
    }
}
