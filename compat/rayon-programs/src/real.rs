//! Programs and libraries of other people that use rayon, each with a digest of what it returns and its time.

#[cfg(feature = "polars")]
use polars::prelude::{DataFrame, IntoLazy as _, col, df};
use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tokenizers::TokenizerBuilder;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::normalizers::Strip;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// A digest of what a program returned for the files of a folder.
type Answer = Result<u64, Box<dyn Error + Send + Sync>>;

type Program = (&'static str, fn(&Path) -> Answer);

/// The programs, by their names.
const PROGRAMS: &[Program] = &[
    ("oxipng", image),
    ("tokei", lines),
    ("jwalk", walk),
    ("tokenizers", tokens),
    #[cfg(feature = "polars")]
    ("polars", query),
];

/// Runs each on `folder`, and prints its name, its time in milliseconds and its digest.
pub(crate) fn run(folder: &Path) -> ExitCode {
    let mut is_fine = true;
    for &(name, program) in PROGRAMS {
        let start = Instant::now();
        match program(folder) {
            Ok(digest) => println!("{name} {:.1} {digest:x}", start.elapsed().as_secs_f64() * 1e3),
            Err(error) => {
                is_fine = false;
                eprintln!("{name}: {error}");
            }
        }
    }
    ExitCode::from(u8::from(!is_fine))
}

fn digest(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// oxipng: an image as small as it can be, whose attempts run side by side and poll each other's results.
fn image(_: &Path) -> Answer {
    const SIDE: u32 = 300;
    let pixels = (0..SIDE * SIDE).flat_map(|pixel| {
        let (x, y) = (pixel % SIDE, pixel / SIDE);
        [x * y / SIDE, (x ^ y) / 2, (x * x + y * y) / 700].map(|colour| colour.to_le_bytes()[0])
    });
    let image = oxipng::RawImage::new(
        SIDE,
        SIDE,
        oxipng::ColorType::RGB {
            transparent_color: None,
        },
        oxipng::BitDepth::Eight,
        pixels.collect(),
    )?;
    let mut digests = Vec::new();
    for level in [2, 4, 6] {
        digests.push(image.create_optimized_png(&oxipng::Options::from_preset(level))?);
    }
    Ok(digest(digests))
}

/// tokei: the lines of code in the folder, by language.
fn lines(folder: &Path) -> Answer {
    let mut languages = tokei::Languages::new();
    languages.get_statistics(&[folder], &["target"], &tokei::Config::default());
    let lines: BTreeMap<String, _> = languages
        .iter()
        .map(|(name, language)| {
            let counts = (
                language.code,
                language.comments,
                language.blanks,
                language.reports.len(),
            );
            (name.to_string(), counts)
        })
        .collect();
    Ok(digest(lines))
}

/// jwalk: the paths below the folder, in their order.
fn walk(folder: &Path) -> Answer {
    let mut paths = Vec::new();
    for entry in jwalk::WalkDir::new(folder).sort(true) {
        paths.push(entry?.path());
    }
    Ok(digest(paths))
}

/// The texts of the folder, line by line.
fn texts(folder: &Path) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
    let mut lines = Vec::new();
    for entry in jwalk::WalkDir::new(folder).sort(true) {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md")
        {
            lines.extend(std::fs::read_to_string(path)?.lines().map(str::to_owned));
        }
    }
    Ok(lines)
}

/// tokenizers: a byte-pair encoding that learns from the texts, and encodes them.
fn tokens(folder: &Path) -> Answer {
    let lines = texts(folder)?;
    let mut trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(2000)
        .build();
    let mut tokenizer = TokenizerBuilder::new()
        .with_model(BPE::default())
        .with_normalizer(Some(Strip::new(true, true)))
        .with_pre_tokenizer(Some(ByteLevel::default()))
        .with_post_processor(Some(ByteLevel::default()))
        .with_decoder(Some(ByteLevel::default()))
        .build()?;
    tokenizer.train(&mut trainer, lines.iter())?;
    let vocabulary: BTreeMap<String, u32> = tokenizer.get_model().get_vocab().into_iter().collect();
    let encodings = tokenizer.encode_batch(lines, false)?;
    let ids: Vec<&[u32]> = encodings.iter().map(|encoding| encoding.get_ids()).collect();
    Ok(digest((vocabulary, ids)))
}

/// polars: a query that filters, groups, joins and sorts a million rows.
#[cfg(feature = "polars")]
fn query(_: &Path) -> Answer {
    let mut random = fastrand::Rng::with_seed(7);
    let rows = 1_000_000;
    let keys: Vec<u32> = (0..rows).map(|_| random.u32(..1000)).collect();
    let values: Vec<i64> = (0..rows).map(|_| random.i64(-1000..1000)).collect();
    let rows = df!("key" => keys, "value" => values)?;
    let names = df!(
        "key" => (0..1000u32).collect::<Vec<_>>(),
        "weight" => (0..1000i64).map(|key| key % 17).collect::<Vec<_>>(),
    )?;
    let sums: DataFrame = rows
        .lazy()
        .filter(col("value").gt(-900))
        .group_by([col("key")])
        .agg([
            col("value").sum().alias("sum"),
            col("value").max().alias("largest"),
            col("value").count().alias("count"),
        ])
        .inner_join(names.lazy(), col("key"), col("key"))
        .with_columns([(col("sum") * col("weight")).alias("weighted")])
        .sort(["weighted", "key"], Default::default())
        .collect()?;
    let mut cells = Vec::new();
    for column in sums.columns() {
        for row in 0..sums.height() {
            cells.push(column.get(row)?.to_string());
        }
    }
    Ok(digest(cells))
}
