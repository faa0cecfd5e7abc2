"""What is read from a shell text, held against what a real bash makes of it."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.policy.shell.syntax import SYNTAX_BYTES_MAX, TEXT_BYTES_MAX, Script, parse
from holdfast.policy.shell.verdicts import judge_script
from holdfast.policy.shell.words import Word, read_word, read_words
from holdfast.policy.verdicts import Allow
from policy.approval_world import FACTS, WORKSPACE, shapes, verdict


def argvs(script: Script) -> list[list[str]]:
    return [[word.text for word in command.words] for command in script.commands]


def test_a_word_loses_its_quotes_and_keeps_its_doubts() -> None:
    words = [
        ("ls", "ls", True),
        ("r''m", "rm", True),
        ("'a b'\"c d\"", "a bc d", True),
        ('"a\\"b\\\\c\\.d\\$e"', 'a"b\\c\\.d$e', True),
        ("''", "", True),
        ("foo$", "foo$", True),
        ('"end$"', "end$", True),
        ("a~ ".strip(), "a~", True),
        ("HEAD@{1}", "HEAD@{1}", True),
        ("{}", "{}", True),
        ("'{a,b}'", "{a,b}", True),
        ("[", "[", True),
        ("a]", "a]", True),
        ("r\\m", "rm", False),
        ("a\\\nb", "ab", False),
        ('"a\\\nb"', "ab", False),
        ("\\", "", False),
        ("$'\\x72\\155\\n\\q\\u0041\\U00110000'", "rm\nqA\ufffd", False),
        ("$'open", "$'open", False),
        ('$"ls"', "ls", False),
        ("$HOME/x", "$HOME/x", False),
        ('"${HOME}"', "$HOME", False),
        ("$1", "$1", False),
        ("${x:-y}", "${x:-y}", False),
        ("$[1]", "$[1]", False),
        ("`x`", "`x`", False),
        ('"`x`"', '"`x`"', False),
        ('"$(x)"', '"$(x)"', False),
        ("~/x", "~/x", False),
        ("--x=~/a", "--x=~/a", False),
        ("*.py", "*.py", False),
        ("[ab]", "[ab]", False),
        ("a{b,c}", "a{b,c}", False),
        ("{1..3}", "{1..3}", False),
        ("'open", "'open", False),
        ('"open', '"open', False),
        ('"$', '"$', False),
        ("a;b", "a;b", False),
        ("#a", "#a", False),
        ("", "", False),
    ]
    found = [(raw, word.text, word.literal) for raw, _, _ in words for word in [read_word(raw)]]
    assert found == words


def test_words_are_told_apart_as_a_shell_does() -> None:
    assert read_words("[ -f 'a b' ]") == (Word("["), Word("-f"), Word("a b"), Word("]"))
    assert read_words("a > b") is None
    assert read_words("  ") == ()


def test_every_command_of_a_structure_is_found() -> None:
    structures = [
        ("a | b && c; d || e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("(a; { b; }) & c", [["a"], ["b"], ["c"]]),
        ("a $(b `c`)", [["c"], ["b", "`c`"], ["a", "$(b `c`)"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("f() { a; }; g() ( b )", [["a"], ["b"]]),
        ("a > f b c", [["a", "b", "c"]]),
        ("cat <<E x | b\nt\nE\nc", [["b"], ["cat", "x"], ["c"]]),
        ("a <<E && b\nt\nE", [["b"], ["a"]]),
        ("x=$(a) b", [["a"], ["b"]]),
        ("export A=$(a)", [["a"], ["export", "A=$(a)"]]),
        ("unset x", [["unset", "x"]]),
        ("[ -f x ]", [["[", "-f", "x", "]"]]),
        ("cat <(a) >(b)", [["a"], ["b"], ["cat", "<(a)", ">(b)"]]),
        ("case x in y) a;; esac", [["a"]]),
        ("[[ -f $(a) ]]", [["a"]]),
    ]
    assert [(text, argvs(parse(text))) for text, _ in structures] == structures


def test_redirections_and_settings_belong_to_their_command() -> None:
    (command,) = parse("A=1 B='x y' make 2>&1 <in >>out 2>|err").commands
    assert [(name, value.text) for name, value in command.assignments] == [("A", "1"), ("B", "x y")]
    kinds = [(redirect.kind, redirect.target.text) for redirect in command.redirects]
    assert kinds == [("dup", "1"), ("read", "in"), ("append", "out"), ("write", "err")]
    assert command.fed
    assert [redirect.kind for redirect in parse("cat <<< word").commands[0].redirects] == ["document"]


def test_a_document_is_fixed_unless_it_is_expanded() -> None:
    bodies = {
        "cat <<E\nplain\nE": ("plain\n", True),
        "cat <<E\n`x`\nE": ("`x`\n", False),
        "cat <<'E'\n$x\nE": ("$x\n", True),
        "cat <<\\E\n$x\nE": ("$x\n", True),
        "cat <<-E\n\ta\n\tE": ("\ta\n", True),
        "cat <<E\n$x\nE": ("$x\n", False),
    }
    for text, (body, literal) in bodies.items():
        (command,) = parse(text).commands
        target = command.redirects[0].target
        assert (target.text, target.literal) == (body, literal), text


def test_where_parser_and_shell_may_differ_there_is_a_finding() -> None:
    texts = (
        "echo a\\\nrm x",  # the parser sees two words, a shell one
        "grep<& -c x",  # a shell ends the redirection behind the dash
        "a | b 2>&1 c d",  # the words behind belong to b
        "ls -l2>&1",  # the parser takes -l2 for a descriptor
        "cat -n<<E\nx\nE",  # the parser loses -n
        "cat - <<E\nx\nE",  # the parser loses the dash
        "ls \\\n2>/dev/null 2\\\n>f",
        "# <<'E'\nrm x\nE",  # no document begins in a comment
        "cat <<'E' <<'F'\na\nE\nb\nF",
        "cat <<E",
        "[ -f x\nrm y ]",
        "a=(1 2",
        "ls\u00a0x",
        "ls\ud800",
    )
    assert [text for text in texts if not parse(text).findings] == []


def test_length_has_an_end_and_quoted_documents_may_be_long() -> None:
    body = "if (a[0] < b) { print('x') }\n" * 1_000
    assert not parse(f"cat > f <<'EOF'\n{body}EOF").findings
    assert parse("cat > f <<'EOF'\n" + "x" * TEXT_BYTES_MAX + "\nEOF").findings
    assert parse("ls " + "x" * SYNTAX_BYTES_MAX).findings
    assert not parse(f"cat > f <<'A'\n{'é' * 9_000}\nA\nls").findings


# fmt: off
MUTATIONS = (
    "ls", "cat a", "'", '"', "\\", "\n", " ", "\t", ";", "&&", "||", "|", "|&", "(", ")", "{ ", " }",
    "#", " #", "$", "`", "<", ">", "<<", "<<<", "<<'E'\n", "\nE\n", "<<E\n", " 2>", "&1", ">/dev/null",
    "&", "! ", "=", "x=1 ", "LANG=C ", " -l", "~", "*", "[", " ]", "[ ", "if ", "; then ", "; fi",
    "time ", "eval ", "sh -c ", "env ", "--", "-", "'a b'", "$'", "\\\n", "é", "0", "2", "{a", "}",
    "\\'", '\\"', "''", "<&", ">&", "exec ",
)
# fmt: on


def mutated(rng: random.Random, seeds: list[str]) -> str:
    text = rng.choice(seeds)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        if rng.random() < 0.7:
            text = text[:at] + rng.choice(MUTATIONS) + text[at:]
        else:
            text += rng.choice((" ", "; ", "\n", "|", " && ")) + rng.choice(seeds)
    return text


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_what_bash_runs_is_what_was_read(tmp_path: Path) -> None:
    """What runs unasked is given to a bash that finds no program: it must look for just what was read."""
    seeds = [text for shape in shapes() if shape.ask == "allow" for text in shape.commands]
    seeds = [text for text in seeds if "/bin" not in text and "tail -f" not in text and WORKSPACE not in text]
    log, startup, work = tmp_path / "log", tmp_path / "startup", tmp_path / "work"
    (work / "src").mkdir(parents=True)
    startup.write_text(f'command_not_found_handle() {{ printf "%s\\0" "$#" "$@" >> {log}; }}\n')
    rng = random.Random(7)
    looked_for = 0
    for text in (mutated(rng, seeds) for _ in range(600)):
        if not isinstance(verdict(text), Allow):
            continue
        judged = judge_script(("/bin/bash", "-c", text), FACTS, cwd=WORKSPACE).steps
        read = {step.argv for step in judged} | {outer for step in judged for outer in step.outers}
        spread = [set(step.argv) for step in judged if not step.literal]  # what patterns may stand for
        log.write_bytes(b"")
        environment = {"PATH": str(tmp_path / "none"), "BASH_ENV": str(startup)}
        subprocess.run(["/bin/bash", "-c", text], cwd=work, env=environment, capture_output=True, check=False)
        fields = log.read_text("utf-8").split("\0")[:-1]
        while fields:
            count = int(fields.pop(0))
            words = tuple(fields[:count])
            assert words in read or any(known.issuperset(words) for known in spread), text
            del fields[:count]
            looked_for += 1
        assert sorted(path.name for path in work.rglob("*")) == ["src"], text
    assert looked_for > 50


def test_the_variable_of_a_loop_is_set_to_something_that_is_not_literal_and_says_so() -> None:
    (name, value), *_ = parse("for i in 1 2; do echo step; done").commands[0].assignments
    assert (name, value.literal, value.why) == ("i", False, "takes its values from the loop")


def test_no_letter_is_too_far_for_the_parser() -> None:
    """P12: these lie so far behind the end of its table that the process would die."""
    far = [chr((plane << 16) + last) for plane in range(1, 17) for last in (0, 0xFFFF)]
    for form in ("echo {@", "echo {1..@}", "[[ -@ ]]", "cat <<E\na$@\nE", "cat <<@\nx\n@", "\\@=@"):
        for letter in ("\u0100", "\u4e2d", "\uffff", *far):
            text = form.replace("@", letter)
            assert parse(text).findings or any(letter in word for word in words_of(text)), text


def test_a_letter_from_afar_stays_in_its_word() -> None:
    for letter in ("\u0153", "\u4e2d", "\U0001f600"):
        assert words_of(f"echo 'a {letter}' {letter}b | cat") == ["echo", f"a {letter}", f"{letter}b", "cat"]


def words_of(text: str) -> list[str]:
    return [word.text for command in parse(text).commands for word in command.words]
