#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/release.sh VERSION [--tag] [--dry-run]: makes a release's archive, dist/hearth-VERSION-linux-x86_64.tar.gz.
#
#   --tag        also tags the commit vVERSION, with the version's notes, once the archive is good
#   --dry-run    checks what can be checked before the build, and prints what would be done
#   --help       this text
#
# Needs a clean tree, project(hearth VERSION ...) in CMakeLists.txt, and notes: section VERSION of CHANGELOG.md. Builds
# preset release, installs it with `cmake --install`, adds LICENSE, README.md and the notes, and writes the archive and
# its SHA-256. Before that, it unpacks the archive: the hearth in it must run and say VERSION.
# Run scripts/test.sh first.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

version="" tag=no dry_run=no
for argument in "$@"; do
  case "$argument" in
    --tag) tag=yes ;;
    --dry-run) dry_run=yes ;;
    --help) print_help; exit 0 ;;
    -*) fail 2 "release.sh does not know \"$argument\"" "" "scripts/release.sh --help lists the options" ;;
    *)
      [ -z "$version" ] || fail 2 "release.sh takes one version, and not \"$version\" and \"$argument\""
      version="$argument" ;;
  esac
done
[ -n "$version" ] || fail 2 "release.sh needs a version" "" "scripts/release.sh 1.2.3"
[[ "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] ||
  fail 2 "release.sh: \"$version\" is not a version" "" "three numbers: 1.2.3"
cd "$root"
name="hearth-$version-linux-$(uname --machine)"
archive="dist/$name.tar.gz"

# --- what must be so before anything is built -------------------------------------------------------------------------

changes="$(git status --porcelain)"
[ -z "$changes" ] || fail 2 "release.sh: the tree is not clean" "$changes" \
  "commit these files, or put them away with git stash --include-untracked"

project="$(sed -n 's/^project(hearth VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
[ "$project" = "$version" ] ||
  fail 2 "release.sh: CMakeLists.txt has version $project, not $version" "hearth --version says what stands there" \
    "set project(hearth VERSION $version ...) and commit it"

# The lines between "## VERSION" and the next heading of that rank, without blank lines at either end.
notes="$(awk -v heading="## $version" '/^## / { inside = index($0 " ", heading " ") == 1; next } inside' CHANGELOG.md |
  sed '/./,$!d')"
[ -n "$notes" ] || fail 2 "release.sh: CHANGELOG.md has no notes of $version" "there is no text under \"## $version\"" \
  "turn \"## Unreleased\" into \"## $version\" and commit it"

if [ "$tag" = yes ] && git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then
  fail 2 "release.sh: there is a tag v$version already" "it is commit $(git rev-parse --short "v$version^{commit}")" \
    "take the next version"
fi

if [ "$dry_run" = yes ]; then
  say "would build build/release of commit $(git rev-parse --short HEAD) and install it"
  say "would write $archive and $archive.sha256, unpack it and run bin/hearth --version"
  if [ "$tag" = yes ]; then say "would tag the commit v$version"; fi
  say "notes of $version:"
  printf '%s\n' "$notes"
  exit 0
fi

# --- the archive ------------------------------------------------------------------------------------------------------

build release
staging="$(mktemp --directory)"
trap 'rm -rf "$staging"' EXIT
say "install: build/release into $name"
cmake --install build/release --prefix "$staging/$name" >"$staging/log" ||
  fail 5 "release.sh: cmake --install failed" "$(tail -n 5 "$staging/log")"
cp LICENSE README.md "$staging/$name/"
printf '# Hearth %s\n\n%s\n' "$version" "$notes" >"$staging/$name/CHANGELOG.md"

# The same files make the same archive: names in order, the commit's time, nobody's user.
say "archive: $archive"
mkdir -p dist
tar --create --directory "$staging" --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime="@$(git log -1 --format=%ct)" "$name" |
  gzip --no-name --best >"$staging/archive"

# --- is it good? ------------------------------------------------------------------------------------------------------

mkdir "$staging/unpacked"
tar --extract --gzip --file "$staging/archive" --directory "$staging/unpacked"
said="$(env --ignore-environment "$staging/unpacked/$name/bin/hearth" --version)" ||
  fail 5 "release.sh: bin/hearth of the archive does not run" "$said"
[[ "$said" == "hearth $version "* ]] ||
  fail 5 "release.sh: bin/hearth of the archive is not $version" "it says: $said" "remove build/release and run again"
mv "$staging/archive" "$archive"
(cd dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
say "archive: $(du --apparent-size --human-readable "$archive" | cut --fields=1), says \"$said\""

if [ "$tag" = yes ]; then
  git tag --annotate "v$version" --cleanup=verbatim --message "Hearth $version

$notes"
  say "tag: v$version; publish it with git push origin v$version"
fi
