"""Names are read from metadata alone; DEVICES filters before any plugin code runs."""

import pytest

from core.plugin.discovery import AllowList, Offer, scan


def test_scan_reads_groups_names_versions_and_requirements(plugin_folder):
    plugin_folder.install(
        "core-plugin-foo", {"foo": "nowhere.stub:thing [extra]"}, version="2.1", requires="core>=3"
    )
    plugin_folder.install("some-extension", {"watch": "ext"}, group="core.extensions.v1")
    plugin_folder.install("future", {"BAR": "bar"}, group="core.plugins.v2")
    plugin_folder.install("unrelated", {"run": "a:b"}, group="console_scripts")
    found = {offer.name: offer for offer in scan([str(plugin_folder.path)])}
    assert sorted(found) == ["BAR", "FOO", "WATCH"]
    foo = found["FOO"]
    assert (foo.module, foo.source, foo.major) == ("nowhere.stub", "core-plugin-foo 2.1", 1)
    assert foo.requirement_on_core() == "core>=3"
    assert found["WATCH"].group == "core.extensions.v"
    assert found["BAR"].major == 2


def test_the_first_folder_with_a_distribution_wins(plugin_folder, tmp_path):
    plugin_folder.install("twin", {"FOO": "old"}, version="1.0")
    other = type(plugin_folder)(tmp_path)
    other.install("twin", {"FOO": "new"}, version="2.0")
    offers = scan([str(tmp_path), str(plugin_folder.path), str(tmp_path), "/no/such/folder"])
    assert [offer.module for offer in offers] == ["new"]


def test_a_very_long_list_of_entry_points_is_read_to_its_end(plugin_folder):
    plugin_folder.install("large", {f"N{i:05}": f"module_{i}" for i in range(6000)})
    assert len(scan([str(plugin_folder.path)])) == 6000


def test_requirement_of_another_distribution_is_not_taken_for_core(plugin_folder):
    plugin_folder.install("foo", {"FOO": "foo"}, requires="core-plugin-cpu>=2")
    assert scan([str(plugin_folder.path)])[0].requirement_on_core() == ""
    assert Offer(name="X", module="x", metadata="/no/such/file").requirement_on_core() == ""


@pytest.mark.parametrize(
    ("text", "permitted"),
    [
        ("", {"FOO", "BAR", "NULL"}),
        ("foo", {"FOO", "NULL"}),
        ("-foo", {"BAR", "NULL"}),
        ("foo, bar ,-foo", {"BAR", "NULL"}),
        ("-null", {"FOO", "BAR", "NULL"}),
    ],
)
def test_allow_list(text, permitted):
    allow = AllowList.parse(text)
    assert {name for name in ("FOO", "BAR", "NULL") if allow.permits(name)} == permitted
