//! The pages of `gimlet report` and `gimlet serve` for the runs of the tutorial, in a real browser. `UPDATE_GOLDEN=1` makes the
//! pictures of docs/ from them.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::chromium::Page;
use crate::command::Train;
use crate::folder::Folder;
use crate::play::played;
use crate::serve::Server;

#[test]
#[ignore = "takes a minute, and needs Chromium: `make soak`"]
fn the_runs_of_the_tutorial_are_shown_in_a_browser() {
    let folder = Folder::once("tutorial", |folder| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/first_run.md");
        played(&fs::read_to_string(path).expect("the page is there"), &folder.path(""));
    });
    Train::new(&folder.path("")).tool(&["report"]).arg("pretrained").arg("finetuned").succeeds();
    let address = format!("file://{}", folder.path("report.html").display());
    let Some(mut page) = Page::open(&address) else { return };
    page.wait("window.drawn.includes('pretrained') && window.drawn.includes('finetuned')");
    assert_eq!(page.errors, [""; 0]);
    take_picture(&mut page, "report", [1000, 1250]);

    let server = Server::start(&folder, &["--checkpoint=finetuned"]);
    let Some(mut page) = Page::open(&format!("http://{}/", server.address)) else { return };
    for (question, answer) in [
        ("what: Dan sold two red hats in Iasi.", "red hats"),
        ("where: Ana sold four green lamps in Cluj.", "Cluj"),
    ] {
        page.evaluate("document.getElementById('inputs').select()");
        page.type_in(question, "Enter");
        let newest = "document.querySelector('article')";
        page.wait(&format!(
            "{newest}?.textContent.startsWith('{question}') && {newest}.dataset.done"
        ));
        assert_eq!(
            page.evaluate(&format!("{newest}.querySelector('.answer').textContent")),
            answer
        );
    }
    assert_eq!(page.errors, [""; 0]);
    take_picture(&mut page, "serve", [800, 450]);
}

/// Writes what a window of this width and height shows as a picture of docs/, if goldens are to be updated.
fn take_picture(page: &mut Page, name: &str, [width, height]: [u32; 2]) {
    let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
    page.call("Emulation.setDeviceMetricsOverride", size);
    page.evaluate("document.documentElement.style.scrollbarWidth = 'none'");
    // Charts take their new width with the next frames.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/images/{name}.png"));
        fs::write(path, page.picture()).expect("the picture is writable");
    }
}
