//! The commit of a checkout, read from git's files: there may be no program `git`, and one refuses the folder of
//! another user.

use std::path::{Path, PathBuf};

use fs_err as fs;

/// What a folder is a checkout of; nothing where it is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    /// Its commit, as 40 or 64 hexadecimal digits; empty where it has none.
    pub(crate) commit: String,
    /// Files of which at least one changes with every commit and checkout.
    pub(crate) watched: Vec<String>,
}

impl Checkout {
    pub(crate) fn of(root: &Path) -> Self {
        let Some(folders) = GitFolders::of(root) else {
            return Self::default();
        };
        let head = folders.own.join("HEAD");
        let Ok(text) = fs::read_to_string(&head) else {
            return Self::default();
        };
        let reference = text.strip_prefix("ref:").map(str::trim);
        let commit = match reference {
            Some(name) => folders.commit_of(name),
            None => Some(text.trim().to_owned()),
        };
        // A new commit of a branch leaves HEAD as it is. Where the branch is packed, its file is made by the next
        // commit, and a file that is not there cannot be watched; but the log of HEAD gets a line.
        let mut candidates = vec![head, folders.own.join("logs/HEAD"), folders.shared.join("packed-refs")];
        candidates.extend(reference.map(|name| folders.shared.join(name)));
        Self {
            commit: commit.filter(|commit| is_commit(commit)).unwrap_or_default(),
            watched: candidates
                .into_iter()
                .filter(|file| file.is_file())
                .filter_map(|file| file.into_os_string().into_string().ok())
                .collect(),
        }
    }
}

/// Where git keeps what belongs to a checkout.
#[derive(Debug)]
struct GitFolders {
    /// Of this working tree alone.
    own: PathBuf,
    /// Of all working trees of the repository.
    shared: PathBuf,
}

impl GitFolders {
    fn of(root: &Path) -> Option<Self> {
        let git = root.join(".git");
        let own = if git.is_dir() {
            git
        } else {
            // A working tree beside others, or a submodule.
            let text = fs::read_to_string(&git).ok()?;
            root.join(text.strip_prefix("gitdir:")?.trim())
        };
        let shared =
            fs::read_to_string(own.join("commondir")).map_or_else(|_| own.clone(), |text| own.join(text.trim()));
        Some(Self { own, shared })
    }

    /// The commit that a reference names.
    fn commit_of(&self, name: &str) -> Option<String> {
        if let Ok(commit) = fs::read_to_string(self.shared.join(name)) {
            return Some(commit.trim().to_owned());
        }
        let packed = fs::read_to_string(self.shared.join("packed-refs")).ok()?;
        packed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find_map(|(commit, packed_name)| (packed_name == name).then(|| commit.to_owned()))
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    const OTHER: &str = "89abcdef0123456789abcdef0123456701234567";

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn checkout(files: &[(&str, &str)]) -> (String, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), files);
        let Checkout { commit, watched } = Checkout::of(folder.path());
        let root = format!("{}/", folder.path().display());
        let watched = watched.iter().map(|file| file.replace(&root, "")).collect();
        (commit, watched)
    }

    #[test]
    fn a_branch_is_followed_and_its_log_watched() {
        let (commit, watched) = checkout(&[
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/logs/HEAD", "a line for each commit\n"),
            (".git/refs/heads/main", &format!("{COMMIT}\n")),
            (".git/packed-refs", &format!("{OTHER} refs/heads/main\n")),
        ]);
        assert_eq!(commit, COMMIT, "a packed reference is older than a file of its own");
        let files = [
            ".git/HEAD",
            ".git/logs/HEAD",
            ".git/packed-refs",
            ".git/refs/heads/main",
        ];
        assert_eq!(watched, files);
    }

    #[test]
    fn packed_branches_and_single_commits_are_known() {
        let packed =
            format!("# pack-refs with: peeled\n{OTHER} refs/heads/main-2\n{COMMIT} refs/heads/main\n^{OTHER}\n");
        let (commit, watched) = checkout(&[(".git/HEAD", "ref: refs/heads/main\n"), (".git/packed-refs", &packed)]);
        assert_eq!(commit, COMMIT);
        assert_eq!(watched, [".git/HEAD", ".git/packed-refs"]);
        let (commit, _) = checkout(&[(".git/HEAD", &format!("{COMMIT}\n"))]);
        assert_eq!(commit, COMMIT);
    }

    #[test]
    fn a_second_working_tree_has_its_own_head_and_the_references_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("work/.git", "gitdir: ../main/.git/worktrees/work\n"),
            ("main/.git/HEAD", "ref: refs/heads/main\n"),
            ("main/.git/refs/heads/main", OTHER),
            ("main/.git/refs/heads/work", COMMIT),
            ("main/.git/worktrees/work/HEAD", "ref: refs/heads/work\n"),
            ("main/.git/worktrees/work/commondir", "../..\n"),
        ];
        write(folder.path(), &files);
        assert_eq!(Checkout::of(&folder.path().join("work")).commit, COMMIT);
        assert_eq!(Checkout::of(&folder.path().join("main")).commit, OTHER);
    }

    #[test]
    fn sources_without_git_or_without_a_commit_have_no_revision() {
        assert_eq!(checkout(&[("Cargo.toml", "")]), (String::new(), vec![]));
        let (commit, watched) = checkout(&[(".git/HEAD", "ref: refs/heads/main\n")]);
        assert_eq!((commit.as_str(), watched), ("", vec![".git/HEAD".to_owned()]));
        let (commit, _) = checkout(&[(".git/HEAD", "not a commit\n")]);
        assert_eq!(commit, "");
        assert_eq!(checkout(&[(".git", "elsewhere\n")]), (String::new(), vec![]));
    }
}
