//! Roles, and the role that each call needs.

use serde::{Deserialize, Serialize};

/// What a key may do; each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// `Searcher`, `Encoder`, and what `Admin` only reads: `ListIndexes` and `Status`.
    Read,
    /// `Index`: changes of documents.
    Write,
    /// The rest of `Admin`.
    Admin,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
}

/// What a call needs, where the server has keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Everybody may make it.
    Nothing,
    /// A key of this role, or of one that includes it.
    Role(Role),
    /// A key of the role `admin`: for calls between programs, which show every document and change nothing.
    Peer,
}

impl Needed {
    /// What a gRPC call needs, by its path `/PACKAGE.SERVICE/METHOD`: `admin` for all that is not known here.
    pub fn of_grpc(path: &str) -> Self {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        Self::Role(match (service, method) {
            // Load balancers ask it, and it says nothing but SERVING.
            ("grpc.health.v1.Health", _) => return Self::Nothing,
            (
                "dyad.v1.Searcher"
                | "dyad.v1.Encoder"
                | "grpc.reflection.v1.ServerReflection"
                | "grpc.reflection.v1alpha.ServerReflection",
                _,
            )
            | ("dyad.v1.Admin", "ListIndexes" | "Status") => Role::Read,
            ("dyad.v1.Index", _) => Role::Write,
            ("dyad.v1.Leaf", _) => return Self::Peer,
            _ => Role::Admin,
        })
    }

    /// The role that a key must have; none where no key is needed.
    pub(crate) fn role(self) -> Option<Role> {
        match self {
            Self::Nothing => None,
            Self::Role(role) => Some(role),
            Self::Peer => Some(Role::Admin),
        }
    }

    /// Whether calls of this kind are recorded: they change something.
    pub(crate) fn is_audited(self) -> bool {
        matches!(self, Self::Role(Role::Write | Role::Admin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_needs_the_highest_role() {
        let needed = |path| Needed::of_grpc(path);
        for (path, role) in [
            ("/dyad.v1.Searcher/Search", Role::Read),
            ("/dyad.v1.Encoder/EncodeStream", Role::Read),
            ("/dyad.v1.Admin/Status", Role::Read),
            ("/dyad.v1.Index/Delete", Role::Write),
            ("/dyad.v1.Admin/Reload", Role::Admin),
            ("/dyad.v1.Admin/StatusX", Role::Admin),
            ("/dyad.v2.Searcher/Search", Role::Admin),
            ("/", Role::Admin),
            ("", Role::Admin),
        ] {
            assert_eq!(needed(path), Needed::Role(role), "{path}");
        }
        assert_eq!(needed("/grpc.health.v1.Health/Check"), Needed::Nothing);
        assert!(Role::Read < Role::Write && Role::Write < Role::Admin);
        assert!(!needed("/dyad.v1.Leaf/Search").is_audited() && !needed("/dyad.v1.Searcher/Search").is_audited());
        assert!(needed("/dyad.v1.Index/Upsert").is_audited());
    }

    #[test]
    fn every_method_of_the_contract_has_a_role_that_was_chosen() {
        let pool = prost_reflect::DescriptorPool::decode(crate::v1::FILE_DESCRIPTOR_SET).unwrap();
        let mut chosen = Vec::new();
        for service in pool.services() {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                chosen.push((format!("{}.{}", service.name(), method.name()), Needed::of_grpc(&path)));
            }
        }
        let of = |role| {
            let with = chosen.iter().filter(|(_, needed)| *needed == Needed::Role(role));
            with.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Role::Write), ["Index.Upsert", "Index.Delete"]);
        assert_eq!(of(Role::Admin), ["Admin.Reload", "Admin.Rollback", "Admin.Verify"]);
        let of_peers = chosen.iter().filter(|(_, needed)| *needed == Needed::Peer);
        let of_peers: Vec<&str> = of_peers.map(|(name, _)| name.as_str()).collect();
        let leaf = ["Watch", "Terms", "Search", "Fetch", "Read", "Explain", "OtherGroups"];
        assert_eq!(of_peers, leaf.map(|method| format!("Leaf.{method}")));
        assert_eq!(of(Role::Read).len(), chosen.len() - 5 - of_peers.len());
    }
}
