//! Random layers against a simple oracle, and what is printed is read back.

use proptest::prelude::*;

use super::{Serve, configuration, merge, printed};

/// What one layer gives. A switch of a command line is only ever on.
#[derive(Debug, Clone, Default)]
struct Layer {
    listen: Option<String>,
    max_count: Option<u32>,
    ratio: Option<f64>,
    names: Option<Vec<String>>,
    switch: Option<bool>,
    watch: Option<Watch>,
    generation: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Watch {
    Is(bool),
    Every(u64),
}

fn layer(names: usize) -> impl Strategy<Value = Layer> {
    let watch = prop_oneof![any::<bool>().prop_map(Watch::Is), any::<u64>().prop_map(Watch::Every)];
    let rarely = || prop::option::weighted(0.1, any::<u64>());
    // No `@`: a URL with one is printed without it. No NUL: no argument or variable can have one.
    let text = "[^\0@]{1,6}";
    (
        prop::option::of(text),
        prop::option::of(1_u32..=1000),
        prop::option::of(any::<f64>().prop_filter("comparable", |ratio| !ratio.is_nan())),
        prop::option::of(prop::collection::vec(text, 1..=names)),
        prop::option::of(any::<bool>()),
        prop::option::of(watch),
        rarely(),
    )
        .prop_map(|(listen, max_count, ratio, names, switch, watch, generation)| Layer {
            listen,
            max_count,
            ratio,
            names,
            switch,
            watch,
            generation,
        })
}

impl Layer {
    /// Key and value of all that it gives, lists as several values.
    fn entries(&self) -> Vec<(&'static str, Vec<String>)> {
        let watch = self.watch.map(|watch| match watch {
            Watch::Is(value) => value.to_string(),
            Watch::Every(seconds) => seconds.to_string(),
        });
        let all = [
            ("listen", self.listen.clone().map(|text| vec![text])),
            ("max-count", self.max_count.map(|count| vec![count.to_string()])),
            ("ratio", self.ratio.map(|ratio| vec![ratio.to_string()])),
            ("names", self.names.clone()),
            ("switch", self.switch.map(|switch| vec![switch.to_string()])),
            ("watch", watch.map(|watch| vec![watch])),
            (
                "generation",
                self.generation.map(|generation| vec![generation.to_string()]),
            ),
        ];
        all.into_iter()
            .filter_map(|(key, values)| Some((key, values?)))
            .collect()
    }

    fn arguments(&self) -> Vec<String> {
        let argument = |(key, value): (&str, String)| match (key, &*value) {
            ("switch" | "watch", "true") => vec![format!("--{key}")],
            ("switch" | "watch", "false") => vec![],
            _ => vec![format!("--{key}={value}")],
        };
        let entries = self.entries().into_iter();
        entries
            .flat_map(|(key, values)| values.into_iter().map(move |value| (key, value)))
            .flat_map(argument)
            .collect()
    }

    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let name = |key: &str| match (key, prefix) {
            ("names", "DYAD_") => "DYAD_OF_NAMES".to_owned(),
            _ => format!("{prefix}{}", key.replace('-', "_").to_uppercase()),
        };
        self.entries()
            .into_iter()
            .map(|(key, values)| (name(key), values[0].clone()))
            .collect()
    }

    fn file(&self) -> String {
        let quote = |text: &String| toml::Value::String(text.clone()).to_string();
        let value = |key: &str, values: &[String]| match key {
            "listen" => quote(&values[0]),
            "ratio" => toml::Value::Float(values[0].parse().unwrap()).to_string(),
            "names" => format!("[{}]", values.iter().map(quote).collect::<Vec<_>>().join(", ")),
            _ => values[0].clone(),
        };
        let lines = self
            .entries()
            .into_iter()
            .map(|(key, values)| format!("{key} = {}", value(key, &values)));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// On the command line, `false` says nothing.
    fn of_command_line(self) -> Self {
        Self {
            switch: self.switch.filter(|switch| *switch),
            watch: self.watch.filter(|watch| !matches!(watch, Watch::Is(false))),
            ..self
        }
    }
}

/// What the layers mean, the highest one first. None if it is refused.
fn oracle(layers: &[Layer]) -> Option<Serve> {
    let watch = match layers.iter().find_map(|layer| layer.watch) {
        None | Some(Watch::Is(false)) => None,
        Some(Watch::Is(true)) => Some(1),
        Some(Watch::Every(seconds)) => Some(seconds),
    };
    let generation = layers.iter().find_map(|layer| layer.generation);
    if watch.is_some() && generation.is_some() {
        return None;
    }
    Some(Serve {
        listen: layers
            .iter()
            .find_map(|layer| layer.listen.clone())
            .unwrap_or_else(|| "127.0.0.1:1".to_owned()),
        max_count: layers.iter().find_map(|layer| layer.max_count).unwrap_or(7),
        ratio: layers.iter().find_map(|layer| layer.ratio).unwrap_or(0.5),
        names: layers.iter().find_map(|layer| layer.names.clone())?,
        switch: layers.iter().find_map(|layer| layer.switch).unwrap_or(false),
        watch,
        generation,
        size: None,
    })
}

proptest! {
    #[test]
    fn the_highest_layer_that_gives_a_value_wins(
        flags in layer(3), of_program in layer(1), of_all in layer(1), file in layer(3),
    ) {
        let flags = flags.of_command_line();
        let arguments = ["serve", "--config", "file.toml"].map(str::to_owned).into_iter().chain(flags.arguments());
        let variables = [of_program.variables("DYAD_TESTER_"), of_all.variables("DYAD_")].concat();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        let configuration = configuration(arguments, &variables);
        let merged = merge(&configuration, Some(&file.file())).map_err(|refusal| refusal.to_string());
        let expected = oracle(&[flags, of_program, of_all, file.clone()]);
        prop_assert_eq!(merged.as_ref().ok(), expected.as_ref(), "{:?}", merged);
        if let Some(expected) = expected {
            let toml = printed(&configuration, Some(&file.file())).unwrap();
            let again = super::configuration(["serve", "--config", "printed.toml"], &[]);
            let again = merge(&again, Some(&toml)).map_err(|refusal| refusal.to_string());
            prop_assert_eq!(again, Ok(expected), "{}", toml);
        }
    }
}

#[test]
fn each_value_is_printed_with_its_origin() {
    let arguments = ["config", "print", "--config", "/etc/dyad/t.toml", "--max-count", "9"];
    let variables = [
        ("DYAD_TESTER_LISTEN", "[::1]:2"),
        ("DYAD_LISTEN", "[::1]:3"),
        ("DYAD_NAMES", "unused"),
    ];
    let configuration = configuration(arguments, &variables);
    let file =
        "names = [\"a\", \"https://user:secret@host/x?y#z\", \"w=az://c/x?sig=secret\", \"az://c/x?sig=se@cret\"]
                max-count = 8\nwatch = false\nratio = 1";
    assert!(configuration.is_print());
    let printed = printed(&configuration, Some(file)).unwrap();
    let (of_flags, log) = printed.trim_end().rsplit_once('\n').unwrap();
    let expected = "listen = \"[::1]:2\" # environment DYAD_TESTER_LISTEN\n\
                    max-count = 9 # command line\n\
                    ratio = 1.0 # file /etc/dyad/t.toml\n\
                    names = [\"a\", \"https://***@host/x?y#z\", \"w=az://c/x?***\", \"az://***@***\"] # file /etc/dyad/t.toml\n\
                    switch = false # default\n\
                    watch = false # file /etc/dyad/t.toml\n\
                    # generation is not set\n\
                    # size is not set";
    assert_eq!(of_flags, expected);
    assert!(log.starts_with("log = \""), "{log}");
}

#[test]
fn the_file_is_named_by_a_flag_or_a_variable() {
    let file = |arguments: &[&str], variables: &[(&str, &str)]| {
        let configuration = configuration(arguments.iter().copied(), variables);
        configuration.file().map(|path| path.to_str().unwrap().to_owned())
    };
    let variables = [("DYAD_CONFIG", "all.toml"), ("DYAD_TESTER_CONFIG", "tester.toml")];
    assert_eq!(file(&["serve"], &[]), None);
    assert_eq!(file(&["serve"], &variables[..1]).as_deref(), Some("all.toml"));
    assert_eq!(file(&["serve"], &variables).as_deref(), Some("tester.toml"));
    assert_eq!(
        file(&["serve", "--config=flag.toml", "--names=a"], &variables).as_deref(),
        Some("flag.toml")
    );
    assert_eq!(file(&["ask", "serve"], &variables), None, "another command reads none");
    assert_eq!(file(&["serve", "--help"], &variables), None);
}
