# Shell functions shared by the scripts of this directory. Source it first; it changes to the root
# of the repository.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian installs some servers there, and not every user's PATH contains it.
PATH=$PATH:/usr/sbin

# The checks use the dependencies in each go.mod, not those of a contributor's go.work.
export GOWORK=off

# step TITLE prints a heading.
step() { printf '\n== %s\n' "$*"; }

# fail MESSAGE prints the message and exits with status 1.
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}
