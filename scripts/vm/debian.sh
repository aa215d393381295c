# Sourced: debian_lists SUITE ARCH reads the package lists of a Debian release into a folder of its own, $lists, and sets the array apt to the
# options with which apt-get and apt-cache use it. The machine's lists, and what is installed on it, do not matter and do not change.
# SOCKETXTREME_DEBIAN is the mirror (default http://deb.debian.org/debian).
debian_lists() {
	lists=$(mktemp -d)
	trap 'rm -rf "$lists"' EXIT
	mkdir -p "$lists"/{state/lists/partial,cache/archives/partial,etc/preferences.d}
	: >"$lists/state/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${SOCKETXTREME_DEBIAN:-http://deb.debian.org/debian} $1 main" \
		>"$lists/etc/sources.list"
	apt=(-qq -o "Dir::Etc=$lists/etc" -o Dir::Etc::SourceList=sources.list -o Dir::Etc::SourceParts=none -o "Dir::State=$lists/state"
		-o "Dir::State::status=$lists/state/status" -o "Dir::Cache=$lists/cache" -o "APT::Architecture=$2" -o "APT::Architectures=$2"
		-o APT::Sandbox::User=root -o Acquire::Languages=none)
	apt-get "${apt[@]}" update
}
