//! Repositories of the Hugging Face hub: `hf://datasets/OWNER/NAME[@REVISION]/...`, and models as
//! `hf://OWNER/NAME/...`.

use std::ops::Range;
use std::sync::OnceLock;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::failure::Failure;
use super::retry::retry;
use super::store::{Attempt, Depth, Fetched, Found, Store, Version};
use super::{limits::limits, web};
use crate::credentials::{Credentials, variable};

const IN_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// A repository at a revision.
pub(super) struct Hub {
    place: RepositoryPath,
    /// Whether the owner in `place` is itself the repository, as in `hf://datasets/squad/plain_text`.
    ownerless: OnceLock<bool>,
}

/// The part of a path before the file: the first words may be owner and name, or only an old name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepositoryPath {
    /// `datasets/`, `spaces/`, or nothing for models.
    kind: &'static str,
    owner: String,
    /// `None` if the path ends before the name, or the revision follows the owner.
    name: Option<String>,
    revision: String,
}

/// An entry of a folder in the hub's listing.
#[derive(Deserialize)]
struct HubEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
}

impl RepositoryPath {
    /// Splits the text after `hf://` into the repository and the path in the repository.
    pub(super) fn parse(rest: &str) -> Option<(Self, String)> {
        let kinds = [("datasets/", "datasets/"), ("spaces/", "spaces/"), ("models/", "")];
        let prefixed =
            kinds.iter().find_map(|(word, kind)| Some((*kind, rest.strip_prefix(word)?)));
        let (kind, rest) = prefixed.unwrap_or(("", rest));
        let (owner, mut rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (owner, mut revision) = with_revision(owner);
        let mut name = None;
        if revision.is_none() && !rest.is_empty() {
            let (word, after) = rest.split_once('/').unwrap_or((rest, ""));
            let (word, given) = with_revision(word);
            (name, revision, rest) = (Some(word.to_string()), given, after);
        }
        let mut revision = revision.unwrap_or("main").to_string();
        if revision == "refs" {
            // `refs/convert/parquet` and `refs/pr/7` are accepted without `%2F`.
            let mut words = rest.splitn(3, '/');
            let [kind, name] = [words.next()?, words.next()?];
            revision = format!("refs%2F{kind}%2F{name}");
            rest = words.next().unwrap_or("");
        }
        let place = Self { kind, owner: owner.to_string(), name, revision };
        (!owner.is_empty()).then(|| (place, rest.to_string()))
    }

    fn repository(&self, ownerless: bool) -> String {
        match &self.name {
            Some(name) if !ownerless => format!("{}/{name}", self.owner),
            _ => self.owner.clone(),
        }
    }
}

/// Splits `NAME@REVISION`; slashes of a revision are written `%2F`.
fn with_revision(word: &str) -> (&str, Option<&str>) {
    match word.split_once('@') {
        Some((name, revision)) => (name, Some(revision)),
        None => (word, None),
    }
}

impl Hub {
    pub(super) fn new(place: RepositoryPath) -> Self {
        Self { place, ownerless: OnceLock::new() }
    }

    fn data_url(&self, key: &str) -> String {
        let (place, ownerless) = (&self.place, self.is_ownerless());
        let key = utf8_percent_encode(&self.key(key), IN_PATH).to_string();
        let repository = place.repository(ownerless);
        format!("{}/{}{repository}/resolve/{}/{key}", endpoint(), place.kind, place.revision)
    }

    fn tree_url(&self, folder: &str, depth: Depth) -> String {
        let (place, ownerless) = (&self.place, self.is_ownerless());
        let folder = utf8_percent_encode(&self.key(folder), IN_PATH).to_string();
        let slash = if folder.is_empty() { "" } else { "/" };
        let kind = if place.kind.is_empty() { "models/" } else { place.kind };
        let repository = place.repository(ownerless);
        let revision = &place.revision;
        let recursive = depth == Depth::Tree;
        format!(
            "{}/api/{kind}{repository}/tree/{revision}{slash}{folder}?recursive={recursive}",
            endpoint()
        )
    }

    fn is_ownerless(&self) -> bool {
        self.ownerless.get() == Some(&true)
    }

    /// The path in the repository: an old name has no owner, so the path starts one word earlier.
    fn key(&self, key: &str) -> String {
        match &self.place.name {
            Some(name) if self.is_ownerless() && key.is_empty() => name.clone(),
            Some(name) if self.is_ownerless() => format!("{name}/{key}"),
            _ => key.to_string(),
        }
    }

    /// Whether a refusal was caused by an old name without an owner, which is then remembered.
    async fn was_ownerless(&self, failure: &Failure) -> Result<bool, Failure> {
        let refused = matches!(failure, Failure::NotFound | Failure::Denied(_));
        if !refused || self.place.name.is_none() || self.ownerless.get().is_some() {
            return Ok(false);
        }
        let kind = if self.place.kind.is_empty() { "models/" } else { self.place.kind };
        let url = format!("{}/api/{kind}{}", endpoint(), self.place.owner);
        let token = token();
        let answer = retry(limits(), &url, || web::get(&url, token.as_deref(), None)).await;
        let is_ownerless = match answer {
            Ok(_) => true,
            Err(Failure::NotFound | Failure::Denied(_)) => false,
            // The kind of name is still unknown: the next request checks again.
            Err(failure) => return Err(failure),
        };
        Ok(*self.ownerless.get_or_init(|| is_ownerless))
    }

    async fn tree(&self, folder: &str, depth: Depth) -> Result<Vec<Found>, Failure> {
        let mut next = Some(self.tree_url(folder, depth));
        let mut found = Vec::new();
        let (token, folder) = (token(), self.key(folder));
        while let Some(url) = next {
            let page = retry(limits(), &url, || page(&url, token.as_deref())).await;
            let (entries, following) = match page {
                Ok(page) => page,
                // A folder exists only through its files; there is no such folder.
                Err(Failure::NotFound) => return Ok(found),
                Err(failure) => return Err(explained(failure)),
            };
            found.extend(entries.into_iter().filter_map(|entry| entry.below(&folder, depth)));
            next = following;
        }
        Ok(found)
    }
}

impl HubEntry {
    fn below(self, folder: &str, depth: Depth) -> Option<Found> {
        let name = match folder {
            "" => self.path,
            folder => self.path.strip_prefix(folder)?.strip_prefix('/')?.to_string(),
        };
        let is_file = self.kind == "file";
        let wanted = is_file || depth == Depth::Children;
        wanted.then(|| Found { name, size: is_file.then_some(self.size) })
    }
}

/// Fetches one page of a listing, and the address of the next page.
async fn page(url: &str, token: Option<&str>) -> Result<(Vec<HubEntry>, Option<String>), Failure> {
    let response = web::get(url, token, None).await?;
    let next = web::header(&response, "link").and_then(next_link);
    let next = next.map(|next| at_endpoint(&next)).transpose()?;
    let body = response.into_body().bytes();
    let body = tokio::time::timeout(limits().stall, body).await;
    let body = body.map_err(|_| Failure::temporary("the listing stopped half way"))?;
    let body = body.map_err(|error| Failure::of_request(&error))?;
    let entries = serde_json::from_slice(&body);
    let entries = entries.map_err(|error| Failure::Permanent(format!("its listing: {error}")))?;
    Ok((entries, next))
}

/// The address with `rel="next"` in a Link header.
fn next_link(header: &str) -> Option<String> {
    let link = header.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (_, rest) = link.split_once('<')?;
    Some(rest.split_once('>')?.0.to_string())
}

/// Converts a link to the hub that was asked: mirrors pass on links to the original, and the token
/// is sent to no other server, whatever an answer says.
fn at_endpoint(link: &str) -> Result<String, Failure> {
    match link.find("/api/") {
        Some(at) => Ok(format!("{}{}", endpoint(), &link[at..])),
        None => {
            Err(Failure::Permanent(format!("its listing continues at `{link}`, not at the hub")))
        }
    }
}

/// The address of the hub or of a mirror.
fn endpoint() -> String {
    let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_string());
    endpoint.trim_end_matches('/').to_string()
}

fn token() -> Option<String> {
    let set = variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN"));
    let kept = || std::fs::read_to_string(Credentials::of("hf")?.file()?).ok();
    let token = set.or_else(kept)?.trim().to_string();
    (!token.is_empty()).then_some(token)
}

/// Explains a refusal: the hub also refuses paths that do not exist, so that private names stay
/// hidden.
fn explained(failure: Failure) -> Failure {
    match failure {
        Failure::Denied(said) => {
            let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
            Failure::Denied(format!("the repository is gated or private, or does not exist{said}"))
        }
        failure => failure,
    }
}

impl Store for Hub {
    fn fetch<'a>(&'a self, key: &'a str, range: Range<u64>) -> Attempt<'a, Fetched> {
        Box::pin(async move {
            let token = token();
            let fetch =
                async |range| web::fetch(&self.data_url(key), token.as_deref(), range).await;
            match fetch(range.clone()).await {
                Err(failure) if self.was_ownerless(&failure).await? => fetch(range).await,
                result => result,
            }
            .map_err(explained)
        })
    }

    fn stat<'a>(&'a self, key: &'a str) -> Attempt<'a, Version> {
        Box::pin(async move {
            let token = token();
            let stat = async || match self.key(key).as_str() {
                // A repository itself is a folder.
                "" => Err(Failure::NotFound),
                _ => web::stat(&self.data_url(key), token.as_deref()).await,
            };
            match stat().await {
                Err(failure) if self.was_ownerless(&failure).await? => stat().await,
                result => result,
            }
            .map_err(explained)
        })
    }

    fn list<'a>(&'a self, folder: &'a str, depth: Depth) -> Attempt<'a, Vec<Found>> {
        Box::pin(async move {
            match self.tree(folder, depth).await {
                Ok(found) if found.is_empty() => {
                    let again = self.was_ownerless(&Failure::NotFound).await?;
                    if again { self.tree(folder, depth).await } else { Ok(found) }
                }
                Err(failure) if self.was_ownerless(&failure).await? => {
                    self.tree(folder, depth).await
                }
                result => result,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rest: &str, repository: &str, revision: &str, key: &str) {
        let (place, found) = RepositoryPath::parse(rest).unwrap();
        assert_eq!(format!("{}{}", place.kind, place.repository(false)), repository, "{rest}");
        assert_eq!((place.revision.as_str(), found.as_str()), (revision, key), "{rest}");
    }

    #[test]
    fn paths_name_repository_revision_and_file() {
        check("datasets/o/n/data/a.json", "datasets/o/n", "main", "data/a.json");
        check("datasets/o/n@v1/a.json", "datasets/o/n", "v1", "a.json");
        check(
            "datasets/o/n@refs/convert/parquet/d/a",
            "datasets/o/n",
            "refs%2Fconvert%2Fparquet",
            "d/a",
        );
        check("datasets/o/n@refs/pr/7", "datasets/o/n", "refs%2Fpr%2F7", "");
        check("datasets/squad@v1/data/a.json", "datasets/squad", "v1", "data/a.json");
        check("datasets/squad", "datasets/squad", "main", "");
        check("google/t5-small/spiece.model", "google/t5-small", "main", "spiece.model");
        assert!(RepositoryPath::parse("").is_none());
    }

    #[test]
    fn the_next_page_is_that_of_the_link() {
        let header = r#"<https://h/a?cursor=1>; rel="prev", <https://h/a?cursor=2>; rel="next""#;
        assert_eq!(next_link(header).as_deref(), Some("https://h/a?cursor=2"));
        assert_eq!(next_link(r#"<https://h/a>; rel="prev""#), None);
    }
}
