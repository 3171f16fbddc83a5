"""How programs are installed that come as npm packages."""

from __future__ import annotations

NODE = """
if ! command -v npm >/dev/null; then
    if command -v apt-get >/dev/null; then
        apt-get -qq update && apt-get -qq install -y --no-install-recommends nodejs npm
    elif command -v apk >/dev/null; then apk add --no-progress nodejs npm
    fi
fi
"""
PATH = ("{tools}/node_modules/.bin",)


def install_script(package: str) -> str:
    """Return the script that installs a package in the directory of tools, and node where there is none."""
    install = f'npm install --prefix . --no-audit --no-fund --loglevel error "{package}@${{PROCTOR_VERSION:-latest}}"'
    return f"set -e\n{NODE}\n{install}\n"


def installed_script(program: str) -> str:
    """Return the script that finds out whether the version that is asked for is there."""
    return (
        f'found=$({program} --version) && case " $found " in *" ${{PROCTOR_VERSION:-$found}} "*) ;; *) exit 1 ;; esac\n'
    )
