"""The shell scripts that run in containers: for any POSIX `sh`, such as that of BusyBox, dash and bash.

What they have to do although a container is full of processes, they do by builtins of the shell, as it can start
nothing then. A command is known by the variable `PROCTOR_COMMAND` of its processes, and by what descends from them or
shares a session with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from proctor.plugins.api import ExecLimits

KILOBYTE, BLOCK_BYTES = 1024, 512
"""What `ulimit` counts memory and files in."""

HOLDER = 'while :; do command eval "sleep 3600 & wait"; done'
"""The first process of a container: it ends orphans (`wait` collects whatever has ended), and no signal from inside
reaches it. `command eval` goes on where `sleep` cannot be started."""

_SCAN = r"""
S=' '
scan() {
    F=' ' Z=
    for d in /proc/[0-9]*; do
        p=${d#/proc/} l=
        case "$X" in *" $p "*) continue ;; esac
        read -r l < "$d/stat" || continue
        set -- ${l##*) }
        case "$1$2" in Z1) Z=1 ;; esac
        case "$1" in Z | X) continue ;; esac
        case "$F" in *" $2 "* | *" $4 "*) F="$F$p "; continue ;; esac
        case "$S" in *" $4 "*) F="$F$p "; continue ;; esac
        while IFS= read -r l || [ -n "$l" ]; do
            case "$l" in *"PROCTOR_COMMAND=$T"*) F="$F$p " S="$S$4 "; break ;; esac
        done < "$d/environ"
    done
}
"""
"""Leaves in F the living processes of the command with the token T, but for those in X; in Z, whether there is one that
has ended and that the first process has yet to collect: until then it takes the place of another. Sessions are
remembered in S: the variables of a process cannot be read while it becomes another program."""

_KILL_ALL = r"""
stopped=' ' rounds=0 ended=0
while rounds=$((rounds + 1)); [ $rounds -le 200 ]; do
    scan
    if [ "$F" = ' ' ]; then
        ended=$((ended + 1)) rounds=$((rounds - 1))
        if [ -z "$Z" ] || [ $ended -gt 2000 ]; then break; else continue; fi
    fi
    fresh=
    for p in $F; do case "$stopped" in *" $p "*) ;; *) fresh="$fresh $p" ;; esac; done
    if [ -n "$fresh" ]; then kill -STOP $fresh; stopped="$stopped$fresh "; else kill -KILL $F; stopped=' '; fi
done
"""
"""Stops them until none is left that could start another, and kills them then."""

TERMINATE = f'T=$1 X=" 1 $$ "; exec 2>/dev/null; {_SCAN} scan; kill -TERM $F; :'
KILL = f'T=$1 X=" 1 $$ "; exec 2>/dev/null; {_SCAN} {_KILL_ALL} [ "$F" = \' \' ]'
"""Kills all processes of the command with the token $1; fails where some are left."""

KILL_EVERYTHING = r"""
exec 2>/dev/null
rounds=0
while rounds=$((rounds + 1)); [ $rounds -le 500 ]; do
    kill -9 -1
    left=
    for d in /proc/[0-9]*; do
        case "${d#/proc/}" in 1 | $$) continue ;; esac
        l=; read -r l < "$d/stat" || continue
        set -- ${l##*) }
        case "$1" in Z | X) ;; *) left=1 ;; esac
    done
    [ -z "$left" ] && break
done
[ -z "$left" ]
"""
"""Kills everything but the first process; fails where something is left."""

_INNER = r"""
trap : TERM
case ${BASH_VERSION-} in ?*) set +o posix ;; esac
(
    exec >&8 2>&9 8>&- 9>&-
    case ${BASH_VERSION-} in ?*) set -o posix ;; esac
    cd -- "$1" || exit 127
    case "$2" in -) ;; *) ulimit -v "$2" || exit 126 ;; esac
    case "$3" in -) ;; *) ulimit -f "$3" || exit 126 ;; esac
    shift 3
    exec "$@"
)
echo "=$?"
"""
"""Runs the words from $4 on, in directory $1. Its own error output, which the command does not get, is where the shell
says that a signal ended it: the exit code alone does not tell. Bash does so outside of its POSIX mode only, in which
`ulimit` counts files in other blocks."""

_WATCH = rf"""
read -r me l < /proc/self/stat
X=" 1 $$ $me "
{_SCAN}
while sleep 0.2 || sleep 1; do
    scan
    set -- $F
    if [ $# -gt $((P + 2)) ]; then {_KILL_ALL} fi
done
"""
"""Kills the command with the token T as soon as it has more than P processes; two are the shells around it."""

COMMAND = rf"""
trap : TERM
exec 8>&1 9>&2
T=$1 P=$2 inner=$3
shift 3
watch=
if [ "$P" != - ]; then
    ( {_WATCH} ) < /dev/null > /dev/null 2>&1 8>&- 9>&- &
    watch=$!
fi
said=$(/bin/sh -c "$inner" proctor "$@" 2>&1)
[ -n "$watch" ] && kill -9 $watch 2> /dev/null
[ -n "$said" ] || said='killed=137'
case "$said" in
    =*) how=returned ;;
    *=[0-9]*) how=signalled ;;
    *) printf '%s\n' "$said" >&9; said='=126' how=returned ;;
esac
printf '\036proctor:%s:%s:%s\036' "$T" "${{said##*=}}" "$how" >&8
printf '\036proctor:%s:%s:%s\036' "$T" "${{said##*=}}" "$how" >&9
"""


def command_words(token: str, directory: str, words: Sequence[str], limits: ExecLimits) -> list[str]:
    """Return what to run in a container for a command: it tells how it ended at the end of both of its outputs."""
    numbers = (limits.memory_bytes, KILOBYTE), (limits.file_bytes, BLOCK_BYTES)
    memory, file = ("-" if value is None else str(max(1, int(value) // unit)) for value, unit in numbers)
    count = "-" if limits.processes is None else str(limits.processes)
    return ["/bin/sh", "-c", COMMAND, "proctor", token, count, _INNER, directory, memory, file, *words]


# ------------------------------------------------------------------------------------------ the work directory

OWN_DIRECTORY = r"""
u=$(id -u -- "$2" 2>/dev/null || id -u "$2" 2>/dev/null) || u=${2%%:*}
g=$(id -g -- "$2" 2>/dev/null || id -g "$2" 2>/dev/null) || g=0
case "$2" in *:*) g=${2#*:} ;; esac
[ -d "$1" ] || { mkdir -p -- "$1" && chown "$u:$g" "$1"; } || exit 1
echo "$u $g"
"""
"""Makes the work directory $1 for the user $2 where there is none, and prints the numbers of user and group."""

MARK = r"""
set -e
exec 2>&1
umask 077
[ ! -L "$1" ] && [ -d "$1" ]
rm -rf /.proctor/mark
mkdir -p /.proctor
cp -a -- "$1" /.proctor/mark
"""
RESET = r"""
set -e
exec 2>&1
[ -d /.proctor/mark ] && [ ! -L /.proctor/mark ]
[ ! -L "$1" ] && [ -d "$1" ]
cd -- "$1"
find . -xdev -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +
cp -a /.proctor/mark/. .
[ "$(find . | wc -l)" = "$(cd /.proctor/mark && find . | wc -l)" ]
"""
