//! The files of a corpus: one, or all that a pattern names or a folder has.
use std::collections::{HashSet, VecDeque};
use std::path::{Component, Path, PathBuf};

use super::beir::BeirFolder;
use super::format::{CorpusFormat, endings_in_folders, endings_of_corpora, titles_of_documents};
use super::record_source::RecordSource;
use super::records;
use super::text_folder::{OtherFiles, text_files};
use super::{ReadOptions, is_stream};
use crate::error::Error;
use crate::problem::CorpusProblem;

/// Files that are read one after another, in the order of their names.
#[derive(Debug)]
pub(super) struct Files {
    left: VecDeque<(PathBuf, CorpusFormat)>,
    /// Bytes of all on disk; `None` for standard input.
    pub(super) total_bytes: Option<u64>,
    /// Bytes of those that have been read to their ends.
    pub(super) read_bytes: u64,
    names: Vec<PathBuf>,
    /// The folder in which the paths of files are keys of documents.
    root: PathBuf,
    /// The files in folders of text that are not read.
    others: OtherFiles,
}

/// Letters that make a path a pattern.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Bits of a line in a [`Files::place`], below those of its file.
const LINE_BITS: u32 = 40;

impl Files {
    /// The files that `path` names: itself, the corpus of a BEIR folder, the texts in another folder, or what a pattern
    /// with `*`, `?` or `[a-z]` finds where there is no file of that very name.
    pub(super) fn find(path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let named = named(path)?;
        let mut left = VecDeque::with_capacity(named.len());
        let mut total_bytes = Some(0_u64);
        let mut others = OtherFiles::default();
        // A pattern may find a folder and the files in it.
        let mut seen = HashSet::new();
        let root = root(path);
        for file in named {
            for (file, format) in files_of(file, options.format, &mut others)? {
                if !seen.insert(file.clone()) {
                    continue;
                }
                let bytes = if is_stream(&file) {
                    None
                } else {
                    Some(fs_err::metadata(&file)?.len())
                };
                total_bytes = total_bytes.zip(bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
                left.push_back((file, format));
            }
        }
        let names = left.iter().map(|(path, _)| path.clone()).collect();
        Ok(Self {
            left,
            total_bytes,
            read_bytes: 0,
            names,
            root,
            others,
        })
    }

    /// A warning about files of folders that are not read.
    pub(super) fn warning(&self) -> Option<String> {
        self.others.warning()
    }

    /// Their paths.
    pub(super) fn names(&self) -> &[PathBuf] {
        &self.names
    }

    /// Whether there is one alone.
    pub(super) fn is_one(&self) -> bool {
        self.names.len() == 1
    }

    /// A line of the file that is being read, as one number.
    pub(super) fn place(&self, line: u64) -> u64 {
        let file = self.names.len() - self.left.len() - 1;
        line | (file as u64) << LINE_BITS
    }

    /// What says that a key was used before, with the file where it was, where that is another one.
    pub(super) fn with_file(&self, result: Result<(), CorpusProblem>) -> Result<(), CorpusProblem> {
        let Err(CorpusProblem::DuplicateKey { key, first_line }) = result else {
            return result;
        };
        let (file, line) = (first_line >> LINE_BITS, first_line & ((1 << LINE_BITS) - 1));
        if file == self.place(0) >> LINE_BITS {
            return Err(CorpusProblem::DuplicateKey { key, first_line: line });
        }
        let file = usize::try_from(file)
            .ok()
            .and_then(|file| self.names.get(file))
            .cloned()
            .unwrap_or_default();
        Err(CorpusProblem::DuplicateKeyIn { key, file, line })
    }

    /// Opens the next file; nothing after the last.
    pub(super) fn open_next(&mut self, options: &ReadOptions) -> Result<Option<Box<dyn RecordSource>>, Error> {
        self.left
            .pop_front()
            .map(|(path, format)| records::open(&path, format, &self.root, options))
            .transpose()
    }
}

/// The files that a path stands for, with their formats.
fn files_of(
    file: PathBuf,
    format: CorpusFormat,
    others: &mut OtherFiles,
) -> Result<Vec<(PathBuf, CorpusFormat)>, Error> {
    match format {
        CorpusFormat::Beir => Ok(vec![(BeirFolder::open(&file)?.corpus()?, CorpusFormat::Jsonl)]),
        CorpusFormat::Auto if file.is_dir() => {
            let beir = BeirFolder::open(&file)?;
            match beir.corpus() {
                Err(Error::MissingFile { .. }) if !beir.has_questions() => texts_of(&file, others),
                corpus => Ok(vec![(corpus?, CorpusFormat::Jsonl)]),
            }
        }
        CorpusFormat::Auto => {
            // A missing file is reported as missing, whatever its name.
            if file != Path::new("-") && !file.exists() {
                return Err(Error::NotFound { path: file });
            }
            let format = format_of(&file)?;
            Ok(vec![(file, format)])
        }
        given if given.is_one_document() && file.is_dir() => Ok(texts_of(&file, others)?
            .into_iter()
            .map(|(file, _)| (file, format))
            .collect()),
        given => Ok(vec![(file, given)]),
    }
}

/// Detects the format of a file from its name.
fn format_of(path: &Path) -> Result<CorpusFormat, Error> {
    if path == Path::new("-") {
        return Ok(CorpusFormat::Jsonl);
    }
    CorpusFormat::of_name(path).ok_or_else(|| Error::UnknownFormat {
        path: path.to_owned(),
        expected: format!(
            "a BEIR folder, a folder of {} files, or a name ending in {} (with .gz or .zst after it where compressed). \
             Name it with `--format`, as in `--format tsv`, or rename the file",
            titles_of_documents("and"),
            endings_of_corpora()
        ),
    })
}

/// The texts in a folder; refused where there are none.
fn texts_of(folder: &Path, others: &mut OtherFiles) -> Result<Vec<(PathBuf, CorpusFormat)>, Error> {
    let texts = text_files(folder, others)?;
    if texts.is_empty() {
        let found = others.listed().unwrap_or_else(|| "none".to_owned());
        return Err(Error::NoTexts {
            folder: folder.to_owned(),
            endings: endings_in_folders(),
            found,
        });
    }
    Ok(texts)
}

/// The folder that a corpus is in: itself, that of a file, or the last of a pattern that is named without wildcards.
fn root(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    let is_literal = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(WILDCARDS);
    if path.exists() {
        return path.parent().map(Path::to_owned).unwrap_or_default();
    }
    path.components().take_while(is_literal).collect()
}

fn named(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let Some(pattern) = path.to_str().filter(|text| text.contains(WILDCARDS) && !path.exists()) else {
        return Ok(vec![path.to_owned()]);
    };
    let refuse = |reason: String| std::io::Error::other(format!("`{pattern}` is no pattern of files: {reason}"));
    let found = glob::glob(pattern).map_err(|error| refuse(error.to_string()))?;
    let mut files = found
        .map(|file| file.map_err(std::io::Error::from))
        .collect::<Result<Vec<PathBuf>, _>>()?;
    files.sort();
    if files.is_empty() {
        Err(Error::NoMatch {
            pattern: pattern.to_owned(),
        })
    } else {
        Ok(files)
    }
}
