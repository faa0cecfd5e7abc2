"""What the doctor says about a Postgres store."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast import events as e
from holdfast.config.channels import ChannelSettings
from holdfast.config.server import BlobStoreSettings, ServerSettings
from holdfast.config.settings import Secret, Settings
from holdfast.config.value_formats import database_secrets, format_error, shown_database
from holdfast.features.channels.cli.doctor import undelivered
from holdfast.features.postgres.doctor import check_database, clock_skew, durability
from holdfast.host.known_secrets import known_secrets
from holdfast.host.stores import store_place
from holdfast.interfaces.ids import channel_log_id
from holdfast.values import CHANNEL
from object_lab import KEY, S3Server, objects_in
from postgres_lab import PostgresServer
from stores import PostgresStore

URL = "postgresql://holdfast:p%40ss:word@db-1:5432,db-2/work?sslmode=require"


def settings_of(url: str, folder: Path) -> Settings:
    return Settings(server=ServerSettings(store=Secret(url), data_dir=str(folder)))


def test_a_database_is_asked_for_its_version_durability_clock_and_notifications(
    postgres: PostgresServer, postgres_dsn: str, tmp_path: Path
) -> None:
    found = check_database(settings_of(postgres_dsn, tmp_path))
    assert [(one.name, one.state) for one in found] == [
        ("store", "ok"),
        ("durability", "fault" if postgres.ours else found[1].state),  # ours syncs nothing, to be quick
        ("database clock", "ok"),
        ("notifications", "ok"),
    ]
    assert f"127.0.0.1:{postgres.port}" in found[0].text or not postgres.ours


def test_a_database_that_is_not_there_is_a_fault_that_names_it_without_its_password(tmp_path: Path) -> None:
    (found,) = check_database(settings_of("postgresql://me:hush@127.0.0.1:1/x", tmp_path))
    assert (found.name, found.state) == ("store", "fault")
    assert "postgresql://me@127.0.0.1:1/x" in found.text
    assert "hush" not in str(found)


@pytest.mark.parametrize(
    ("changed", "standbys", "state"),
    [
        ({}, 0, "ok"),
        ({"fsync": "off"}, 0, "fault"),
        ({"full_page_writes": "off"}, 0, "fault"),
        ({"synchronous_commit": "off"}, 0, "fault"),
        ({}, 2, "note"),
        ({"synchronous_standby_names": "ANY 1 (a, b)"}, 2, "ok"),
    ],
)
def test_what_breaks_the_promise_to_keep_what_was_seen_is_said(
    changed: dict[str, str], standbys: int, state: str
) -> None:
    """P1."""
    usual = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "synchronous_standby_names": "",
    }
    assert durability(usual | changed, standbys=standbys).state == state


def test_a_clock_that_is_off_by_more_than_a_second_is_said() -> None:
    assert clock_skew(0.5).state == "ok"
    assert clock_skew(-2.0).state == "note"


def test_the_address_of_a_database_is_shown_without_its_password(tmp_path: Path) -> None:
    """P11."""
    assert shown_database(URL) == "postgresql://holdfast@db-1:5432,db-2/work"
    assert shown_database("postgresql:///x?host=/run&password=hush") == "postgresql:///x"
    assert database_secrets(URL) == ("p%40ss:word", "p@ss:word")
    assert database_secrets("postgresql://db/x?user=a&password=hush%21") == ("hush%21", "hush!")
    assert database_secrets("") == ()
    settings = settings_of(URL, tmp_path)
    assert set(database_secrets(URL)) <= set(known_secrets(settings))
    assert "p%40ss" not in store_place(settings) + repr(settings)


def test_an_address_of_another_kind_of_database_is_refused_without_repeating_it() -> None:
    assert format_error("database", "") == format_error("database", URL) == ""
    assert "hush" not in (why := format_error("database", "mysql://me:hush@db/x"))
    assert why


def test_two_servers_on_one_machine_have_different_names(tmp_path: Path) -> None:
    one, other = settings_of(URL, tmp_path / "a"), settings_of(URL, tmp_path / "b")
    assert one.node_name != other.node_name
    assert one.node_name == settings_of(URL, tmp_path / "a").node_name
    assert Settings(server=ServerSettings(node_name="web-2")).node_name == "web-2"


def with_bucket(settings: Settings, bucket: BlobStoreSettings) -> Settings:
    return replace(settings, server=replace(settings.server, blob_store=bucket))


def of_bucket(settings: Settings) -> list[tuple[str, str]]:
    return [(one.state, one.text) for one in check_database(settings) if one.name == "blob store"]


def test_a_bucket_is_tried_and_every_blob_is_looked_for(
    postgres_dsn: str, s3: S3Server, tmp_path: Path
) -> None:
    """P1: a blob that is missing is named; a bucket that isn't configured any more is, too."""
    bucket = s3.bucket()
    without = settings_of(postgres_dsn, tmp_path)
    settings = with_bucket(without, bucket)
    assert of_bucket(without) == []

    async def put() -> str:
        store = await PostgresStore.open(postgres_dsn, name="one", objects=objects_in(bucket))
        try:
            return await store.put_blob(bytes(2 << 20))
        finally:
            await store.close()

    name = asyncio.run(put())
    works = "writing, reading and deleting work; 1 blob there"
    assert of_bucket(settings) == [("ok", f"{bucket.place}: {works}")]
    assert len(s3.everything(bucket)) == 1
    ((state, text),) = of_bucket(without)
    assert (state, text.partition(" (")[0]) == ("fault", f"1 blob is in {bucket.place}")
    asyncio.run(objects_in(bucket).delete(list(s3.keys(bucket))))
    assert of_bucket(settings) == [("fault", f"1 blob missing in {bucket.place}: {name}")]
    wrong = replace(bucket, secret_access_key=Secret(f"{bucket.secret_access_key!s}-of-another"))
    ((state, text),) = of_bucket(with_bucket(without, wrong))
    assert (state, text.endswith("403 SignatureDoesNotMatch")) == ("fault", True)


def test_the_key_of_a_bucket_is_a_secret(tmp_path: Path) -> None:
    """P11."""
    bucket = BlobStoreSettings(bucket="b", access_key_id=Secret("id"), secret_access_key=Secret(KEY))
    assert KEY in known_secrets(with_bucket(settings_of("", tmp_path), bucket))


async def test_what_was_not_delivered_is_counted_in_a_database_too(postgres_dsn: str, tmp_path: Path) -> None:
    """P14: nobody misses a message without being told, whichever store has it."""
    channels = (ChannelSettings(name="tg", kind="telegram", token=Secret("1:x")),)
    settings = replace(settings_of(postgres_dsn, tmp_path), channels=channels)
    empty = settings_of(f"{postgres_dsn.rpartition('/')[0]}/postgres", tmp_path)
    assert await undelivered(replace(empty, channels=channels)) == [], "there are no tables yet"
    store = await PostgresStore.open(postgres_dsn, name="one")
    answer = e.DeliveryIntended(at_ms=1, chat="1", message="answer", run="r")
    created = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="tg")
    became: list[e.Event] = [
        e.DeliveryAttempted(at_ms=2, delivery=answer.key),
        e.DeliveryRejected(at_ms=3, delivery=answer.key, why="no"),
    ]
    log_id = channel_log_id("tg")
    try:
        await store.append(log_id, [created, answer])
        await store.append_run(log_id, became, fence=await store.claim(log_id))
    finally:
        await store.close()
    (found,) = await undelivered(settings)
    assert (found.state, found.facts) == ("note", {"given_up": 0, "rejected": 1})
    elsewhere = settings_of("postgresql://me@127.0.0.1:1/x", tmp_path)
    (away,) = await undelivered(replace(elsewhere, channels=channels))
    assert (away.name, away.state) == ("deliveries", "fault")
