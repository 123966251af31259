//! Compares a host with the model: by real connections, by the kernel's list of names, and by what `tccc status` lists.

use super::*;

impl World {
    /// Compares the host with every promise of the model.
    pub fn compare(&mut self, model: &Model) -> Checked {
        let probes = self.probe(model);
        for probe in &probes {
            let (has, may) = (algorithm_of(&probe.socket), model.given(&probe.end));
            promised("which algorithm a new connection gets", is_one_of(&may, &has), || {
                format!("{} has {has}, promised {may:?}; the default is {}", probe.what, sandbox::default())
            })?;
        }
        for (pair, ends) in self.open.iter().zip(&model.open) {
            for (has, end) in pair.algorithms().into_iter().zip(ends) {
                promised("which algorithm an open connection has", is_one_of(&end.now, &has), || {
                    format!("an open connection has {has}, promised {:?}", end.now)
                })?;
            }
        }
        let default = sandbox::default();
        promised("the default", default == model.default, || format!("it is {default}, promised {}", model.default))?;
        let names = model.registered();
        promised("the registered names", has_exactly(&names), || {
            format!("{:?} are registered, promised {names:?}", available())
        })?;
        let status = self.status()?;
        self.compare_status(&status, model)?;
        self.compare_code(&status, model, &probes)
    }

    /// After a kill, the host is as before the command or as after it, and `tccc status` lists what is left.
    pub fn compare_between(&self, before: &Model, after: &Model) -> Checked {
        for probe in &self.probe(before) {
            let has = algorithm_of(&probe.socket);
            // The rules change before the default.
            let may = [before, after].map(|model| model.given(&probe.end));
            let is_default = probe.end.choice.is_none() && [&before.default, &after.default].contains(&&has);
            let is_right = is_default || may.iter().any(|may| is_one_of(may, &has));
            promised("which algorithm a connection gets after a kill", is_right, || {
                format!("{} has {has}, promised one of {may:?}", probe.what)
            })?;
        }
        let status = self.status()?;
        let listed = |name: &String| status["instances"].as_array().unwrap().iter().any(|it| it["name"] == **name);
        for name in available().iter().filter(|name| is_ours(name)) {
            promised("`status` lists what a killed command left", listed(name), || format!("{name} is not listed"))?;
        }
        Ok(())
    }

    fn probe(&self, model: &Model) -> Vec<Probe> {
        let mut probes = Vec::new();
        for class in CLASSES {
            for (at, choice) in [None, Some(KERNEL)].into_iter().enumerate() {
                let listener = &self.listeners[class as usize][at];
                for ip in ["127.0.0.1", "[::1]"] {
                    let what = format!("a new connection of class {class:?} at {ip}, own choice {choice:?}");
                    probes.extend(connected(listener, ip, class, choice, &what));
                }
            }
        }
        for (listener, holder) in self.choosing.iter().zip(&model.listeners) {
            let what = format!("a new connection of a listener that chose {}", holder.name);
            let [client, mut server] = connected(listener, "127.0.0.1", Class::Other, None, &what);
            server.end.choice = Some(holder.name.clone());
            server.held = Some((holder.name.clone(), holder.code));
            probes.extend([client, server]);
        }
        for (at, (netns, holder)) in self.namespaces.iter().zip(&model.namespaces).enumerate() {
            let mut ends = netns
                .run(|| {
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    Ok(connected(&listener, "127.0.0.1", Class::Other, None, "a new connection in a namespace"))
                })
                .unwrap();
            for probe in &mut ends {
                probe.end.netns = Some(at);
                probe.held = Some((holder.name.clone(), holder.code));
            }
            probes.extend(ends);
        }
        probes
    }

    fn compare_status(&mut self, status: &Value, model: &Model) -> Checked {
        let listed = status["instances"].as_array().unwrap();
        promised("what `status` lists", listed.len() == model.registered().len(), || format!("it lists {listed:?}"))?;
        for (&name, loaded) in &model.loaded {
            let Some(line) = listed.iter().find(|line| line["name"] == name.to_string()) else {
                return differs("what `status` lists", format!("it does not list {name}"));
            };
            let set = value(name, loaded.code.version);
            let tunables = set.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            let expected = (Value::Object(tunables), Value::from(loaded.code.generation));
            let is = (line["tunables"].clone(), line["generation"].clone());
            promised("which code `status` lists", is == expected, || {
                format!("{name} is {is:?}, promised {expected:?}")
            })?;
        }
        let is_on_trial = status["trial"].is_object();
        promised("the trial", is_on_trial == model.trial.is_some(), || {
            format!("`status` says {}; the latest: {}", status["trial"], status["last_trial"])
        })?;
        let drift = status["policy"]["drift"].as_array().cloned().unwrap_or_default();
        let is_label = |line: &Value| line.as_str().is_some_and(|line| line.starts_with("labels of open connections"));
        let is_right = drift.iter().all(|line| model.may_keep_labels() && is_label(line));
        promised("nothing drifts", is_right, || format!("{drift:?}"))?;
        let number = status["policy"]["generation"].as_u64();
        let Some(deciding) = model.deciding() else {
            if drift.is_empty() {
                self.numbers.clear(); // no label is left that has one
            }
            return promised("the policy", number.is_none(), || format!("`status` says {}", status["policy"]));
        };
        let Some(number) = number else { return differs("the policy", "`status` shows no policy") };
        let highest = self.numbers.values().copied().max().unwrap_or(0);
        let known = *self.numbers.entry(deciding.stamp).or_insert_with(|| if number > highest { number } else { 0 });
        promised("numbers of generations are not used twice", known == number, || {
            format!("the generation has number {number}, and {highest} was used before")
        })
    }

    /// Counts the connections that run earlier code of a name.
    fn compare_code(&self, status: &Value, model: &Model, probes: &[Probe]) -> Checked {
        for (name, loaded) in &model.loaded {
            let line = status["instances"].as_array().unwrap().iter().find(|line| line["name"] == name.to_string());
            let Some(previous) = loaded.previous else { continue };
            let counts = line.map_or(&Value::Null, |line| &line["sockets_by_generation"]);
            let Some(counted) = counts[previous.generation.to_string()].as_u64() else {
                return differs("which code connections have", format!("`status` does not count those of {name}"));
            };
            let name = name.to_string();
            let mut old = 0;
            for probe in probes.iter().filter(|probe| algorithm_of(&probe.socket) == name) {
                let held = probe.held.as_ref().filter(|(held, _)| *held == name);
                old += u64::from(held.is_some_and(|(_, code)| *code == Some(previous.id)));
            }
            for (pair, ends) in self.open.iter().zip(&model.open) {
                let of_name = pair.algorithms().into_iter().zip(ends).filter(|(has, _)| *has == name);
                old += of_name.filter(|(_, end)| end.codes.get(&name) == Some(&previous.id)).count() as u64;
            }
            promised("which code connections have", counted == old, || {
                format!("{counted} connections with {name} have generation {}, promised {old}", previous.generation)
            })?;
        }
        Ok(())
    }
}

fn has_exactly(names: &BTreeSet<String>) -> bool {
    let is = available().into_iter().filter(|name| is_ours(name)).collect::<Vec<_>>();
    is.len() == names.len() && is.iter().all(|name| is_one_of(names, name))
}

/// Opens a connection whose client makes the choice that the listener made.
fn connected(listener: &TcpListener, ip: &str, class: Class, choice: Option<&str>, what: &str) -> [Probe; 2] {
    let port = listener.local_addr().unwrap().port();
    let address = |port: u16| format!("{ip}:{port}").parse().unwrap();
    let client = connect_from(address(0), address(port), choice);
    let server = listener.accept().unwrap().0;
    let probe = |socket: TcpStream, is_accepting| {
        reset_when_closed(&socket);
        let mut end = End::new(class, is_accepting);
        end.choice = choice.map(str::to_owned);
        let side = if is_accepting { "accepted" } else { "opened" };
        Probe { what: format!("{what}, {side} end"), end, socket, held: None }
    };
    [probe(client, false), probe(server, true)]
}

fn reset_when_closed(socket: &impl AsFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::Linger, &linger).unwrap();
}
