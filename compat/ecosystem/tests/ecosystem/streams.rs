//! Codecs of tokio-util over sockets of ours, and files of tokio.

use futures_util::{SinkExt, StreamExt as _};
use tokio_util::codec::{Framed, LinesCodec};
use warpweft::net::{TcpListener, TcpStream};
use warpweft_ecosystem::{on_a_worker, on_pools};
use warpweft_tokio::Io;

#[test]
fn lines_over_a_socket() {
    on_pools(|| async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let server = warpweft::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let mut lines = Framed::new(Io::socket(stream), LinesCodec::new_with_max_length(100));
            while let Some(line) = lines.next().await {
                on_a_worker().await;
                lines.send(line?.to_uppercase()).await?;
            }
            Ok::<_, warpweft_ecosystem::Error>(())
        });
        let stream = Io::socket(TcpStream::connect(address).await?);
        let mut lines = Framed::new(stream, LinesCodec::new());
        for line in ["warp", "", "weft and warp"] {
            lines.send(line).await?;
            assert_eq!(
                lines.next().await.ok_or("the server has closed")??,
                line.to_uppercase()
            );
        }
        SinkExt::<&str>::close(&mut lines).await?;
        assert!(lines.next().await.is_none());
        server.await.expect("no panic")?;
        Ok(())
    });
}

/// These run on threads that tokio starts for closures that block: see `BuilderExt::tokio_context`.
#[test]
fn files_of_tokio() {
    on_pools(|| async {
        let path = std::env::temp_dir().join(format!("warpweft-eco-file-{}", std::process::id()));
        tokio::fs::write(&path, "woven").await?;
        let text = warpweft::spawn({
            let path = path.clone();
            async move { tokio::fs::read_to_string(path).await }
        });
        assert_eq!(text.await.expect("no panic")?, "woven");
        tokio::fs::remove_file(path).await?;
        let thread = tokio::task::spawn_blocking(|| std::thread::current().name().map(str::to_owned)).await?;
        assert_eq!(thread.as_deref(), Some("warpweft-tokio-blocking"));
        Ok(())
    });
}
