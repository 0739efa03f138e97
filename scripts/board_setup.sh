#!/bin/sh
# Prepare a 64-bit ARM board (Raspberry Pi OS, Debian, Ubuntu) to run artifacts and to be lent by an RPC tracker.
#
#   sh board_setup.sh                          install into ~/relay-layout-board
#   sh board_setup.sh --tracker HOST:9190 --key pi5
#                                              install, then serve this board under the key until it is stopped
#
# On the machine that tunes: python -m tvm.exec.rpc_tracker --host 0.0.0.0 --port 9190
# Further options: --folder DIR, --cores N (threads that kernels may use), --package PATH_OR_NAME (what pip
# installs: by default the checkout that this script lies in, or relay-layout where it lies alone).
set -eu

folder=$HOME/relay-layout-board
tracker='' key='' cores=''
checkout=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
package=relay-layout
[ ! -f "$checkout/pyproject.toml" ] || package=$checkout

fail() {
    echo "board_setup.sh: $1" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || fail "$1 needs a value"
    case $1 in
        --folder) folder=$2 ;;
        --tracker) tracker=$2 ;;
        --key) key=$2 ;;
        --cores) cores=$2 ;;
        --package) package=$2 ;;
        *) fail "unknown option $1; there are --folder, --tracker, --key, --cores and --package" ;;
    esac
    shift 2
done
[ -z "$tracker" ] || [ -n "$key" ] || fail "--tracker needs --key, the name that boards of this kind share"
case $tracker in '' | *:*) ;; *) fail "--tracker: expected HOST:PORT, got $tracker" ;; esac

machine=$(uname -m)
[ "$machine" = aarch64 ] || fail "this machine is $machine; wheels of TVM need a 64-bit ARM system (aarch64)"

python=''
for candidate in python3.13 python3.12 python3.11 python3.10 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "no Python 3.10 or newer with venv; install it: sudo apt-get install python3-venv"

if [ ! -x "$folder/bin/python" ]; then
    "$python" -m venv "$folder"
fi
# An RPC server links what it is sent, so it needs a C compiler, or the package ziglang.
extras=tune
command -v cc >/dev/null 2>&1 || extras=tune,linker
"$folder/bin/python" -m pip install --quiet --upgrade "${package}[$extras]"
"$folder/bin/python" -c 'import tvm; print("TVM", tvm.__version__, "is installed")'

for governor in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do
    [ -r "$governor" ] || continue
    if [ "$(cat "$governor")" != performance ]; then
        echo "times will vary while the clock does; as root: echo performance | tee $governor" >&2
        break
    fi
done

[ -n "$tracker" ] || exit 0
[ -z "$cores" ] || export TVM_NUM_THREADS="$cores"
while :; do
    # A kernel may crash the server, and a board should come back without anybody looking.
    "$folder/bin/python" -m tvm.exec.rpc_server --host 0.0.0.0 --port 9090 --port-end 9190 \
        --tracker "$tracker" --key "$key" || echo "the server ended; starting it again" >&2
    sleep 2
done
