"""Shell completion: the script each shell loads, and the answers the scripts ask for.

A script runs `mqctl` with two variables: _MQCTL_SHELL, and in _MQCTL_LINE the command line up to the cursor. The
answer is one candidate per line, in the form the shell likes. No answer makes the shell offer file names.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from mqctl.env import SHELL_VARIABLE, Environment

LINE_VARIABLE: Final = "_MQCTL_LINE"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_BASH: Final = """\
# bash completion for mqctl, made by `mqctl completion bash`
_mqctl() {
    local IFS=$'\\n'
    COMPREPLY=($(_MQCTL_SHELL=bash _MQCTL_LINE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null))
}
complete -o default -F _mqctl mqctl
"""

_ZSH: Final = """\
#compdef mqctl
# zsh completion for mqctl, made by `mqctl completion zsh`
_mqctl() {
    local -a found
    found=(${(f)"$(_MQCTL_SHELL=zsh _MQCTL_LINE="${words[1,CURRENT]}" ${words[1]} 2>/dev/null)"})
    if (( ${#found} )); then
        _describe -V mqctl found
    else
        _files
    fi
}
if [[ $funcstack[1] == _mqctl ]]; then
    _mqctl "$@"
else
    compdef _mqctl mqctl
fi
"""

_FISH: Final = """\
# fish completion for mqctl, made by `mqctl completion fish`
function __mqctl_complete
    set -l found (env _MQCTL_SHELL=fish _MQCTL_LINE=(commandline -cp | string collect) mqctl 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mqctl -f -a '(__mqctl_complete)'
"""

SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


class Candidate(NamedTuple):
    value: str
    help: str


def _zsh_line(candidate: Candidate) -> str:
    # _describe splits at the first colon that is not escaped.
    value = candidate.value.replace("\\", "\\\\").replace(":", "\\:")
    return f"{value}:{candidate.help}" if candidate.help else value


_LINES: Final[dict[str, Callable[[Candidate], str]]] = {
    Shell.BASH: lambda candidate: candidate.value,
    Shell.ZSH: _zsh_line,
    Shell.FISH: lambda candidate: f"{candidate.value}\t{candidate.help}",
}


def answer(root: Any, session: Any, env: Environment) -> None:
    """Writes what fits at the cursor. `root` is the root command, `session` what its commands run in."""
    line = _LINES.get(env.variables.get(SHELL_VARIABLE, ""))
    if line is None:
        return
    words, incomplete = split_line(env.variables.get(LINE_VARIABLE, ""))
    for candidate in candidates(root, session, words, incomplete):
        env.stdout.write(line(candidate) + "\n")


def candidates(root: Any, session: Any, words: list[str], incomplete: str) -> list[Candidate]:
    # The one private name of typer in use: its walk through nested commands, which click documents as the
    # way to ask for completions. typer's own scripts would import rich for every press of TAB.
    from typer._completion_classes import BashComplete

    items = BashComplete(root, {"obj": session}, "mqctl", "").get_completions(words, incomplete)
    # Other types stand for file names, which the shell knows better.
    return [Candidate(item.value, " ".join((item.help or "").split())) for item in items if item.type == "plain"]


def split_line(line: str) -> tuple[list[str], str]:
    """The words after `mqctl`, and the unfinished one at the end (empty behind a blank)."""
    words = _split(line)
    incomplete = words.pop() if words and not line[-1:].isspace() else ""
    names = [PurePath(word).name for word in words]
    return (words[names.index("mqctl") + 1 :] if "mqctl" in names else []), incomplete


def _split(line: str) -> list[str]:
    """As a shell would, where a quote that is still open holds the last word."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token or "")
    return words
