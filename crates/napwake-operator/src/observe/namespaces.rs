//! Namespaces, as the index keeps them.

use std::sync::Arc;

use tokio::time::Instant;

use super::{concerns::Concerns, convert::ObservedNamespace, index::Index};

impl Index {
    pub(crate) fn apply_namespace(
        &mut self,
        new: Arc<ObservedNamespace>,
        now: Instant,
    ) -> Concerns {
        let key = (String::new(), new.name.clone());
        let old = self.namespaces.look(&key, now).known();
        // But for its version, which anybody's label makes another one.
        let same = old.is_some_and(|old| {
            let mut old = ObservedNamespace::clone(&old);
            old.version.clone_from(&new.version);
            old == *new
        });
        self.namespaces.apply(key.clone(), new);
        if same {
            return Concerns::nobody();
        }
        Concerns::of_namespace(self, &key.1, now)
    }

    pub(crate) fn delete_namespace(&mut self, name: &str, uid: &str, now: Instant) -> Concerns {
        self.namespaces
            .delete(&(String::new(), name.to_owned()), uid);
        Concerns::of_namespace(self, name, now)
    }

    pub(crate) fn spoil_namespace(&mut self, name: &str, why: String, now: Instant) -> Concerns {
        self.namespaces.spoil((String::new(), name.to_owned()), why);
        Concerns::of_namespace(self, name, now)
    }
}
