//! Pools that tenants share.

use std::path::Path;

use sublet_client::ring::{CallError, Client, GetOutcome, Key, PutOutcome};
use sublet_types::{Bytes, ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

use crate::content::page_of;
use crate::daemon::Folder;

const NAME: &str = "6f1c2f0e-9d3b-4f7a-8c55-0123456789ab";

const SHARED: PoolFlags = PoolFlags {
    persistent: false,
    shared: true,
    keeping: true,
};

fn config(folder: &Folder, sharers: &str) -> String {
    let ring = |tenant: &str| folder.path(&format!("{tenant}.ring")).display().to_string();
    let tenant = |name: &str| format!("[tenants.{name}]\nlisten = [\"ring:{}\"]\n", ring(name));
    let tenants = ["web", "api", "other"].map(tenant).concat();
    format!("{tenants}[tenants.photos]\nshared = \"{NAME}\"\nsharers = {sharers}\n")
}

fn join(ring: &Path) -> Result<(Client, PoolId), CallError> {
    let mut client = Client::connect(ring).expect("connected");
    let name: SharedName = NAME.parse().expect("a UUID");
    let pool = client.create_pool(SHARED, Some(name))?;
    Ok((client, pool))
}

fn key(pool: PoolId) -> Key {
    Key {
        pool,
        object: ObjectId(7),
        index: PageIndex(1),
    }
}

/// Users that the config allows share pages, and a separate tenant is charged for them. Nobody else is admitted.
#[test]
fn tenants_that_may_share_a_pool_and_no_others() {
    let folder = Folder::new();
    let daemon = folder.serve_config(&config(&folder, "[\"web\", \"api\"]"));
    let (mut web, hers) = join(&folder.path("web.ring")).expect("allowed");
    let (mut api, his) = join(&folder.path("api.ring")).expect("allowed");
    let page = page_of(7);
    assert_eq!(web.put(key(hers), &page), Ok(PutOutcome::Stored));
    let mut got = [0; 4096];
    assert_eq!(api.get(key(his), &mut got), Ok(GetOutcome::Hit));
    assert_eq!(got, page);
    let denied = join(&folder.path("other.ring")).map(|_| ());
    let why = denied.expect_err("nobody allowed it").to_string();
    assert!(why.contains("`shared` and `sharers`"), "{why}");

    let status = folder.admin().status().expect("answered");
    let tenant = |name: &str| {
        let mut tenants = status.tenants.iter();
        let tenant = tenants.find(|tenant| tenant.name.as_str() == name);
        tenant.expect("a tenant")
    };
    let used = ["photos", "web", "api"].map(|name| tenant(name).used);
    assert_eq!(used, [Bytes::kib(4), Bytes::ZERO, Bytes::ZERO]);
    assert_eq!(status.arena.used, Bytes::kib(4));
    assert_eq!(tenant("api").hit_rate(), Some(1.0));
    assert_eq!(daemon.end().0, Some(0));
}

#[test]
fn a_pool_is_not_shared_by_more_than_it_may_be() {
    let folder = Folder::new();
    let names: Vec<String> = (0..257).map(|n| format!("t{n}")).collect();
    let tenants: String = names
        .iter()
        .map(|name| {
            let ring = folder.path(&format!("{name}.ring"));
            format!("[tenants.{name}]\nlisten = [\"ring:{}\"]\n", ring.display())
        })
        .collect();
    let check = |count: usize| {
        let sharers = &names[..count];
        let text =
            format!("{tenants}[tenants.photos]\nshared = \"{NAME}\"\nsharers = {sharers:?}\n");
        let file = folder.write("sublet.toml", &text);
        folder.sublet(&["config", "check", file.to_str().expect("text")])
    };
    assert!(check(256).status.success());
    let refused = check(257);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let place = "sublet.toml:517: `tenants.photos.sharers`: 257 tenants, and 256 may share a pool";
    assert!(said.contains(place), "{said}");
    assert!(said.contains("name fewer here"), "{said}");
}

#[test]
fn whoever_shares_is_a_tenant() {
    let folder = Folder::new();
    let file = folder.write("sublet.toml", &config(&folder, "[\"web\", \"nobody\"]"));
    let output = folder.sublet(&["config", "check", file.to_str().expect("text")]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "`tenants.photos.sharers`: no tenant is called nobody";
    assert!(said.contains(expected), "{said}");
}
