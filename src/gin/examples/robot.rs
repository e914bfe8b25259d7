//! The language in another project: `cargo run -p gimlet-gin --example robot -- src/gin/examples/robot.gin`.

use std::{env, fs, io};

use gimlet_gin::{Configurable, Diagnostics, Evaluator, Registry, Request, Source, load};

/// A robot that gin files describe.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "factory.Robot")]
struct Robot {
    /// Number of arms.
    #[gin(default = 2)]
    arms: i64,
    /// Name of the robot.
    name: String,
}

/// Files of the disk.
struct Disk;

impl Source for Disk {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        fs::read_to_string(path).map(Some)
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

fn main() {
    let request = Request { files: env::args().skip(1).collect(), ..Request::default() };
    match robot(&request) {
        Ok(robot) => println!("{robot:?}"),
        Err(mistakes) => eprint!("{mistakes}"),
    }
}

fn robot(request: &Request) -> Result<Robot, String> {
    let registry = Registry::default().with::<Robot>();
    let loaded = load(request, &Disk, &registry).map_err(|mistakes| mistakes.render(false))?;
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let robot = evaluator.evaluate_in("welder");
    robot.map_err(|_| {
        let list = evaluator.into_diagnostics();
        Diagnostics { sources: loaded.sources.clone(), list }.render(false)
    })
}

#[test]
fn the_file_beside_describes_a_robot() {
    let files = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/examples/robot.gin").to_string()];
    let found = robot(&Request { files, ..Request::default() });
    assert_eq!(found, Ok(Robot { arms: 6, name: "Ada".to_string() }));
}
