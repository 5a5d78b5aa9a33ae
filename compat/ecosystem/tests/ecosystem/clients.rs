//! Clients: reqwest, sqlx with SQLite, redis.

use redis::AsyncCommands as _;
use sqlx::Row as _;
use sqlx::sqlite::SqlitePoolOptions;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use warpweft::net::{TcpListener, TcpStream};
use warpweft_ecosystem::{Error, on_a_worker, on_pools};
use warpweft_tokio::Io;

#[test]
fn reqwest_in_tasks_jobs_and_fibers() {
    on_pools(|| async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let url = format!("http://{}/", listener.local_addr()?);
        let hello = axum::Router::new()
            .route("/", axum::routing::get(|| async { "hello" }))
            .route("/echo", axum::routing::post(|body: String| async { body }));
        let server = warpweft::spawn(async move { warpweft_tokio::serve(listener, hello).await });
        let client = reqwest::Client::new();
        let echoes: Vec<_> = (0..4)
            .map(|n| {
                let echo = client.post(format!("{url}echo")).body(n.to_string());
                warpweft::spawn(async move { echo.send().await?.error_for_status()?.text().await })
            })
            .collect();
        for (n, echo) in echoes.into_iter().enumerate() {
            assert_eq!(echo.await.expect("no panic")?, n.to_string());
        }
        let none = client.get(format!("{url}none")).send().await?;
        assert_eq!(none.status().as_u16(), 404);
        let ask = {
            let (client, url) = (client.clone(), url.clone());
            move || {
                let asked = client.get(&url).send();
                async move { asked.await?.text().await }
            }
        };
        let task = warpweft::spawn(ask());
        let (job, fiber) = (ask.clone(), ask.clone());
        let job = warpweft::spawn_job(move || warpweft::block_on(job()));
        let fiber = warpweft::fiber::spawn(move || warpweft::block_on(fiber()));
        // A fork that waits.
        let (a, b) = warpweft::join(|| warpweft::block_on(ask()), || warpweft::block_on(ask()));
        for answer in [
            task.await.expect("no panic")?,
            job.await.expect("no panic")?,
            fiber.await.expect("no panic")?,
            a?,
            b?,
        ] {
            assert_eq!(answer, "hello");
        }
        server.cancel();
        Ok(())
    });
}

#[test]
fn sqlx_with_sqlite() {
    on_pools(|| async {
        let file = std::env::temp_dir().join(format!("warpweft-eco-{}", std::process::id()));
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let pool = SqlitePoolOptions::new().max_connections(3).connect(&url).await?;
        sqlx::query("create table if not exists threads (n integer primary key, name text not null)")
            .execute(&pool)
            .await?;
        sqlx::query("delete from threads").execute(&pool).await?;
        let mut transaction = pool.begin().await?;
        for n in 0..50_i64 {
            sqlx::query("insert into threads values (?, ?)")
                .bind(n)
                .bind(format!("thread {n}"))
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        let readers: Vec<_> = (0..6)
            .map(|reader| {
                let pool = pool.clone();
                warpweft::spawn(async move {
                    for n in (reader..50_i64).step_by(6) {
                        let row = sqlx::query("select name from threads where n = ?")
                            .bind(n)
                            .fetch_one(&pool)
                            .await?;
                        assert_eq!(row.get::<String, _>(0), format!("thread {n}"));
                        on_a_worker().await;
                    }
                    Ok::<_, sqlx::Error>(())
                })
            })
            .collect();
        for reader in readers {
            reader.await.expect("no panic")?;
        }
        pool.close().await;
        std::fs::remove_file(file)?;
        Ok(())
    });
}

/// A server with the commands `PING`, `SET` and `GET`; it answers all others by `OK`.
async fn store(stream: TcpStream, values: Arc<Mutex<HashMap<String, String>>>) -> Result<(), Error> {
    let mut stream = BufStream::new(Io::socket(stream));
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let parts: usize = line.trim().strip_prefix('*').ok_or("no array")?.parse()?;
        let mut words = Vec::new();
        for _ in 0..parts {
            line.clear();
            stream.read_line(&mut line).await?;
            let length: usize = line.trim().strip_prefix('$').ok_or("no string")?.parse()?;
            let mut word = vec![0; length + 2];
            stream.read_exact(&mut word).await?;
            words.push(String::from_utf8(word[..length].to_vec())?);
        }
        on_a_worker().await;
        let name = words[0].to_uppercase();
        let answer = match (name.as_str(), &words[1..]) {
            ("PING", _) => String::from("+PONG\r\n"),
            ("SET", [key, value, ..]) => {
                values
                    .lock()
                    .expect("no panic")
                    .insert(key.clone(), value.clone());
                String::from("+OK\r\n")
            }
            ("GET", [key]) => match values.lock().expect("no panic").get(key) {
                Some(value) => format!("${}\r\n{value}\r\n", value.len()),
                None => String::from("$-1\r\n"),
            },
            _ => String::from("+OK\r\n"),
        };
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
    }
}

#[test]
fn redis_over_one_connection_for_many_tasks() {
    on_pools(|| async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let url = format!("redis://{}/", listener.local_addr()?);
        let server = warpweft::spawn(async move {
            let values = Arc::default();
            while let Ok((stream, _)) = listener.accept().await {
                warpweft::spawn(store(stream, Arc::clone(&values))).detach();
            }
        });
        let connection = redis::Client::open(url)?
            .get_multiplexed_async_connection()
            .await?;
        let pong: String = redis::cmd("PING").query_async(&mut connection.clone()).await?;
        assert_eq!(pong, "PONG");
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let mut connection = connection.clone();
                warpweft::spawn(async move {
                    let (key, value) = (format!("key {n}"), format!("value {n}"));
                    let none: Option<String> = connection.get(&key).await?;
                    assert_eq!(none, None);
                    let _: () = connection.set(&key, &value).await?;
                    let back: String = connection.get(&key).await?;
                    assert_eq!(back, value);
                    on_a_worker().await;
                    Ok::<_, redis::RedisError>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic")?;
        }
        server.cancel();
        Ok(())
    });
}
