#!/usr/bin/env bash
# Runs a program built with ThreadSanitizer. gcc 12's gives up where the kernel spreads mappings over
# more bits than it knows; then addresses are not randomized.
set -euo pipefail
if [ "$("$1" --help 2>&1 | grep -c 'unexpected memory mapping')" -ne 0 ]; then
    exec setarch "$(uname -m)" -R "$@"
fi
exec "$@"
