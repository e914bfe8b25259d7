//! The pages of `gimlet serve` and `gimlet report` in a real browser.

use std::fs;

use serde_json::json;

use crate::chromium::Page;
use crate::command::Train;
use crate::folder::{Folder, steps};
use crate::generate::gimlet;
use crate::resume::{send, wait};
use crate::serve::Server;

#[test]
#[ignore = "takes seconds, and needs Chromium: `make soak`"]
fn the_page_of_the_server_shows_answers_and_mistakes() {
    let folder = Folder::pretrained();
    let words = ["generate", "--checkpoint=pretrained", "--temperature=0", "--max_tokens=7", "b c"];
    let expected = gimlet(&folder, &words).succeeds().stdout;
    let server = Server::start(&folder, &["--checkpoint=pretrained"]);
    let address = format!("http://{}/", server.address);
    let Some(mut page) = Page::open(&address) else { return };
    page.evaluate("document.getElementById('temperature').value = 0");
    page.evaluate("document.getElementById('max_tokens').value = 7");
    page.evaluate("document.getElementById('inputs').focus()");
    page.type_in("b c", "Enter");
    let shown = page.wait("document.querySelector('article[data-done] .answer')?.textContent");
    assert_eq!(shown, expected.trim_end_matches('\n'));

    page.evaluate("document.getElementById('max_tokens').value = 100000");
    page.type_in("", "Enter");
    let said = page.wait("document.querySelector('article .failed')?.textContent");
    assert!(said.as_str().expect("a text").contains("`max_tokens` is 100000"), "{said}");
    assert_eq!(page.errors, [""; 0]);
    assert!(page.loaded.iter().all(|loaded| loaded.starts_with(&address)), "{:?}", page.loaded);
}

#[test]
#[ignore = "takes seconds, and needs Chromium: `make soak`"]
fn the_page_of_a_run_that_was_killed_marks_its_restart_and_loads_nothing() {
    let folder = Folder::new();
    let train = folder.pretrain(1_000_000);
    let mut child = train.start();
    wait(|| steps(&folder.path("model")).last() >= Some(&8));
    send(&child, libc::SIGKILL);
    child.wait().expect("it ends");
    let killed_at = *steps(&folder.path("model")).last().expect("it has saved");
    folder.pretrain(killed_at + 8).succeeds();
    Train::new(&folder.path("")).tool(&["report"]).arg("model").succeeds();

    let address = format!("file://{}", folder.path("report.html").display());
    let Some(mut page) = Page::open(&address) else { return };
    page.wait("window.drawn.includes('R')");
    let text = fs::read_to_string(folder.path("report.html")).expect("it was written");
    assert!(text.contains(&format!("\"restarts\":[[{killed_at}]]")));
    let mut page_color = |scheme: &str| {
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        page.call("Emulation.setEmulatedMedia", json!({"features": scheme}));
        page.evaluate("getComputedStyle(document.body).backgroundColor")
    };
    assert_eq!(
        [page_color("light"), page_color("dark")],
        ["rgb(255, 255, 255)", "rgb(21, 23, 26)"]
    );
    for width in [360, 1600] {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        page.call("Emulation.setDeviceMetricsOverride", size);
        // Charts take their new width with the next frames.
        page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
        let wide = "[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.wide')).map(one => one.outerHTML.slice(0, 80))";
        assert_eq!(page.evaluate(wide), json!([]), "wider than {width}");
    }
    assert_eq!(page.errors, [""; 0]);
    assert_eq!(page.loaded, [address]);
}
