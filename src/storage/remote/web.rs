//! Files behind `http://` and `https://`, read by ranges if the server supports them.

use std::ops::Range;
use std::time::SystemTime;

use futures::{StreamExt, TryStreamExt};
use object_store::client::{HttpRequest, HttpRequestBody, HttpResponse};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::answer::Answered;
use super::client::client;
use super::failure::Failure;
use super::store::{Attempt, Depth, Fetched, Found, Store, Version};
use super::sum::Crc32c;

/// Characters that a URL cannot contain as the user wrote it; existing escapes stay.
const NOT_IN_URLS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}').add(b'\\');

/// All web servers of a scheme: a key is the rest of the URL after `https://`.
pub(super) struct Web {
    pub scheme: &'static str,
}

impl Web {
    fn url(&self, key: &str) -> String {
        format!("{}://{}", self.scheme, utf8_percent_encode(key, NOT_IN_URLS))
    }
}

impl Store for Web {
    fn fetch<'a>(&'a self, key: &'a str, range: Range<u64>) -> Attempt<'a, Fetched> {
        Box::pin(async move { fetch(&self.url(key), None, range).await })
    }

    fn stat<'a>(&'a self, key: &'a str) -> Attempt<'a, Version> {
        Box::pin(async move { stat(&self.url(key), None).await })
    }

    fn list<'a>(&'a self, _: &'a str, _: Depth) -> Attempt<'a, Vec<Found>> {
        let remedy = "web servers do not list folders; name each file";
        Box::pin(async move { Err(Failure::Unsupported(remedy.to_string())) })
    }

    fn has_below<'a>(&'a self, _: &'a str) -> Attempt<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}

/// Sends a GET request; an answer other than success is a failure.
pub(super) async fn get(
    url: &str,
    token: Option<&str>,
    range: Option<Range<u64>>,
) -> Result<HttpResponse, Failure> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    let no_url = |_| Failure::Permanent(format!("`{url}` is not a URL"));
    *request.uri_mut() = url.parse().map_err(no_url)?;
    if request.uri().host().is_none() {
        return Err(Failure::Permanent(format!("`{url}` names no server")));
    }
    let mut header = |name: &'static str, value: String| {
        let unsound = |_| Failure::Permanent(format!("`{name}` is not a valid header"));
        request.headers_mut().insert(name, value.parse().map_err(unsound)?);
        Ok::<(), Failure>(())
    };
    if let Some(token) = token {
        header("authorization", format!("Bearer {token}"))?;
    }
    if let Some(range) = range {
        header("range", format!("bytes={}-{}", range.start, range.end - 1))?;
    }
    let response = match client()?.execute(request).await {
        Ok(response) => response,
        Err(error) => return Err(Failure::of_request(&error)),
    };
    match response.status().is_success() {
        true => Ok(response),
        false => Err(Failure::of_answer(&Answered::read(response).await)),
    }
}

/// Requests a range; a server without ranges sends the whole file.
pub(super) async fn fetch(
    url: &str,
    token: Option<&str>,
    range: Range<u64>,
) -> Result<Fetched, Failure> {
    let asked = range.start;
    let response = get(url, token, Some(range)).await?;
    let ranged = response.status().as_u16() == 206;
    let (version, start) = version(&response);
    if ranged && start != Some(asked) {
        let found = header(&response, "content-range").unwrap_or("none").to_string();
        let reason = format!("byte {asked} was asked for, and the server sent range `{found}`");
        return Err(Failure::Permanent(reason));
    }
    if ranged && version.size.is_none() {
        return Err(Failure::Permanent("the server does not tell its size".to_string()));
    }
    let start = start.unwrap_or(0);
    let bytes = response.into_body().bytes_stream();
    let bytes = bytes.map_err(|error| Failure::of_request(&error)).boxed();
    Ok(Fetched { version, start, ranged, bytes })
}

/// Requests only the first byte: servers that refuse HEAD, for example for signed URLs, answer this
/// too.
pub(super) async fn stat(url: &str, token: Option<&str>) -> Result<Version, Failure> {
    match get(url, token, Some(0..1)).await {
        Ok(response) => Ok(version(&response).0),
        // Only an empty file has no first byte.
        Err(Failure::PastEnd) => Ok(Version { size: Some(0), ..Version::default() }),
        Err(failure) => Err(failure),
    }
}

/// Returns the state of the sent file, and the start of the range, if it is a range.
fn version(response: &HttpResponse) -> (Version, Option<u64>) {
    let range = header(response, "content-range").and_then(content_range);
    let size = match range {
        Some((_, size)) => size,
        None => header(response, "content-length").and_then(|text| text.parse().ok()),
    };
    let modified = header(response, "last-modified").and_then(http_date);
    let e_tag = header(response, "etag").map(str::to_string);
    let crc32c = Crc32c::of_response(response);
    (Version { size, e_tag, modified, generation: None, crc32c }, range.map(|(start, _)| start))
}

pub(super) fn header<'a>(response: &'a HttpResponse, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Parses `bytes 0-9/100`: the first byte and the whole size, which may be `*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.parse().ok()?, size.parse().ok()))
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`; returns `None` for other formats.
fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.find(month)? as i64 / 3;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let mut clock = time.split(':').map(|part| part.parse::<i64>().ok());
    let [hours, minutes, seconds] = [clock.next()??, clock.next()??, clock.next()??];
    // Days since 1970, for a year that starts in March (Hinnant, "chrono-compatible date
    // algorithms").
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hours * 3600 + minutes * 60 + seconds;
    let since = std::time::Duration::from_secs(seconds.try_into().ok()?);
    Some(SystemTime::UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_headers_are_times() {
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
        ] {
            let since = http_date(text).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(since.as_secs(), seconds, "{text}");
        }
        assert_eq!(http_date("yesterday"), None);
    }

    #[test]
    fn ranges_tell_the_size_of_the_whole() {
        assert_eq!(content_range("bytes 5-9/100"), Some((5, Some(100))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        assert_eq!(content_range("bytes */100"), None);
    }

    #[test]
    fn urls_keep_the_escapes_of_the_user() {
        let url = |key| Web { scheme: "https" }.url(key);
        assert_eq!(url("h/a%20b?c=d&e"), "https://h/a%20b?c=d&e");
        assert_eq!(url("h/a b/é"), "https://h/a%20b/%C3%A9");
    }
}
