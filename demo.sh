#!/usr/bin/env bash
# The demo: TPC-H tables shuffled, grouped and joined over several endpoints, checked with DuckDB.
# Installs what is missing first. Needs bash and apt, nothing else.
#
#   SF=1 ENDPOINTS=4 ./demo.sh      these are the defaults: TPC-H scale factor, number of endpoints
#
# Arguments are passed on to `mgi demo`. Writes data/ and demo-report.html.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
tools/setup.sh demo
exec .venv/bin/mgi demo --sf "${SF:-1}" --endpoints "${ENDPOINTS:-4}" "$@"
