//! An S3 server that checks signatures, for tests of files and of whole runs.

use futures::TryStreamExt;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::runtime::Runtime;

use super::server::{Reply, Request};

/// An S3 server over a temporary folder, which holds the buckets as folders.
pub struct S3 {
    service: S3Service,
    runtime: Runtime,
    pub root: tempfile::TempDir,
}

impl S3 {
    pub fn new(bucket: &str, keys: Option<(&str, &str)>) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(bucket)).unwrap();
        std::fs::write(root.path().join(bucket).join("public.txt"), "for all").unwrap();
        let files = s3s_fs::FileSystem::new(root.path()).unwrap();
        let mut builder = S3ServiceBuilder::new(files);
        if let Some((key, secret)) = keys {
            builder.set_auth(SimpleAuth::from_single(key, secret));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        Self { service: builder.build(), runtime, root }
    }

    pub fn answer(&self, request: &Request) -> Reply {
        let reads = ["GET", "HEAD"].contains(&request.method.as_str());
        let target = reads.then_some(request.target.as_str());
        let source = target.or(request.header("x-amz-copy-source")).unwrap_or("?");
        let key = percent_encoding::percent_decode_str(source).decode_utf8().unwrap();
        if self.root.path().join(key.trim_start_matches('/')).is_dir() {
            // Real buckets have no folders; this server would fail on them.
            return Reply::status(404);
        }
        let mut asked = s3s::HttpRequest::<()>::builder()
            .method(request.method.as_str())
            .uri(request.target.as_str());
        for (name, value) in &request.headers {
            asked = asked.header(name, value);
        }
        let asked = asked.body(s3s::Body::from(request.body.clone())).unwrap();
        self.runtime.block_on(async {
            let answer = self.service.call(asked).await.unwrap();
            let mut reply = Reply::status(answer.status().as_u16());
            for (name, value) in answer.headers() {
                // The body is sent whole; HEAD states the length of a body that is not sent.
                let of_body = ["content-length", "transfer-encoding"].contains(&name.as_str());
                if request.method == "HEAD" || !of_body {
                    reply = reply.with(name.as_str(), value.to_str().unwrap());
                }
            }
            let chunks: Vec<bytes::Bytes> = answer.into_body().try_collect().await.unwrap();
            Reply { body: chunks.concat(), ..reply }
        })
    }
}
