//! A slot that specs of other crates may fill.

use gimlet::gin::{AnySpec, Configurable, Evaluator, Fills, Registry, Request, admit, load};
use gimlet::run::Library;

/// The interface of an animal.
pub trait Sound: AnySpec {
    /// Returns the animal's word.
    fn sound(&self) -> String;
}

/// A dog.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "zoo.Dog")]
pub struct Dog;

impl Sound for Dog {
    fn sound(&self) -> String {
        "wow".to_string()
    }
}

gimlet::gin::slot! {
    /// Any animal.
    pub enum Animal: Sound {
        Dog,
        ..
    }
}

/// An animal of another crate.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "other_zoo.Cat")]
pub struct Cat {
    /// Number of sounds.
    #[gin(default = 1)]
    pub count: usize,
}

impl Sound for Cat {
    fn sound(&self) -> String {
        "meow".repeat(self.count)
    }
}

impl Fills for Cat {
    type Slot = Animal;
}

/// `zoo.animal = ..`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "zoo")]
struct Zoo {
    /// The animal under test.
    animal: Animal,
}

fn animal(value: &str) -> Result<Animal, String> {
    admit::<Cat>();
    // A second registration has no effect.
    admit::<Cat>();
    let registry = Registry::default().with::<Zoo>();
    let bindings = vec![("case".to_string(), format!("zoo.animal = {value}"))];
    let request = Request { bindings, ..Request::default() };
    let loaded = load(&request, &Library, &registry).map_err(|found| found.render(false))?;
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let zoo = evaluator.evaluate_in::<Zoo>("");
    zoo.map(|zoo| zoo.animal).map_err(|_| format!("{:?}", evaluator.into_diagnostics()))
}

#[test]
fn a_registered_spec_fills_the_slot_like_the_others() {
    assert_eq!(animal("@zoo.Dog()").map(|animal| animal.spec().sound()), Ok("wow".to_string()));
    let cat = animal("@other_zoo.Cat()");
    assert_eq!(cat.as_ref().map(|cat| cat.spec().sound()), Ok("meow".to_string()));
    assert_eq!(cat, animal("@Cat()"));
    assert_ne!(cat, animal("@zoo.Dog()"));
    assert_eq!(format!("{:?}", cat.clone()), "Ok(Open(Cat { count: 1 }))");
}

#[test]
fn specs_with_other_parameters_differ() {
    let cat = |count| animal(&format!("@Cat()\nCat.count = {count}"));
    assert_eq!(cat(2).map(|cat| cat.spec().sound()), Ok("meowmeow".to_string()));
    assert_eq!(cat(2), cat(2));
    assert_ne!(cat(2), cat(3));
}

#[test]
fn a_message_names_registered_specs_among_those_that_fit() {
    let said = animal("3").expect_err("3 is no animal");
    assert!(said.contains("one of @Dog(), @Cat()"), "{said}");
}
