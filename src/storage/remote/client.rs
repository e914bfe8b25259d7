//! The runtime and the HTTP client that all stores share: one pool of connections and threads.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use futures::future::BoxFuture;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpService, ReqwestConnector,
};
use tokio::runtime::{Builder, Runtime};

use super::failure::Failure;
use super::limits::limits;
use super::retry::Backoff;
use super::watched::Watched;

/// The process's only runtime, started with the first request.
pub(super) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let built = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("storage")
            .enable_all()
            .build();
        built.expect("the system has threads to give")
    })
}

/// Waits for a store's operation.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

/// The shared client; certificates are loaded on first use.
pub(super) fn client() -> Result<HttpClient, Failure> {
    static CLIENT: OnceLock<Result<HttpClient, String>> = OnceLock::new();
    let made = CLIENT.get_or_init(|| {
        let _entered = runtime().enter();
        // reqwest has no provider of its own; an error means that the process has chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Gimlet has its own time limits: whole requests may last as long as their bytes keep
        // coming.
        let options = ClientOptions::new()
            .with_allow_http(true)
            .with_timeout_disabled()
            .with_connect_timeout(Duration::from_secs(10));
        let inner = ReqwestConnector::default().connect(&options);
        let inner = inner.map_err(|error| error.to_string())?;
        Ok(HttpClient::new(Watched { inner }))
    });
    made.clone().map_err(|reason| Failure::Permanent(format!("no HTTP client: {reason}")))
}

/// Gives every store the shared client. The number of attempts is decided only in [`retry`], never
/// by `object_store`, which does not support `Retry-After`.
///
/// [`retry`]: super::retry
#[derive(Clone, Copy, Debug)]
pub(super) enum Connector {
    /// Requests are made once: the caller retries.
    Once,
    /// Requests are retried here, for operations that `object_store` performs in several requests.
    Patient,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = client().map_err(|failure| object_store::Error::Generic {
            store: "HTTP",
            source: format!("{failure:?}").into(),
        })?;
        Ok(match self {
            Self::Once => client,
            Self::Patient => HttpClient::new(Patient { once: client }),
        })
    }
}

/// A client that retries.
#[derive(Debug)]
struct Patient {
    once: HttpClient,
}

impl Patient {
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri();
        // The query is omitted, because it may contain a signature.
        let asked = format!("{}{}", uri.host().unwrap_or_default(), uri.path());
        let mut backoff = Backoff::new(limits(), &asked);
        loop {
            let error = match self.once.execute(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match backoff.pause(Failure::of_request(&error)).await {
                Ok(()) => {}
                Err(Failure::GivenUp(given_up)) => {
                    return Err(HttpError::new(HttpErrorKind::Decode, given_up));
                }
                Err(_) => return Err(error),
            }
        }
    }
}

impl HttpService for Patient {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.execute(request))
    }
}
