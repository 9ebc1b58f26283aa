#!/usr/bin/env bash
# A sweep as one Slurm job: Ray on all of its machines, from a clone on a disk that they share.
#
#   sbatch --nodes 4 --gpus-per-node 4 training/cluster/slurm.sh --all --budget paper --storage DIR
#
# What follows the script's name are the words of `python -m training sweep`. Before the time is up,
# Slurm sends SIGTERM: the runs are saved, and the same command continues.
#SBATCH --job-name=gdn-keras
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@180
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:-$PWD}"
bin="${GDN_KERAS_BIN:-$PWD/.venv/bin}"
port="${RAY_PORT:-6379}"
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address="$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address | awk '{print $1}'):$port"
resources=(--num-cpus="${SLURM_CPUS_PER_TASK:-16}" --num-gpus="${SLURM_GPUS_ON_NODE:-0}")

cleanup() { kill $(jobs -p) 2>/dev/null || true; }
trap cleanup EXIT

# Ray on the first machine, then on the others; each `srun` lasts as long as its Ray.
srun --nodes=1 --ntasks=1 --overlap -w "${nodes[0]}" \
    "$bin/ray" start --head --block --port="$port" "${resources[@]}" &
until "$bin/ray" status --address "$address" >/dev/null 2>&1; do sleep 2; done
for node in "${nodes[@]:1}"; do
    srun --nodes=1 --ntasks=1 --overlap -w "$node" \
        "$bin/ray" start --block --address="$address" "${resources[@]}" &
done

# In the background, so that the signal of Slurm reaches the sweep at once.
"$bin/python" -m training sweep "$@" --address "$address" &
sweep=$! stopped=""
trap 'stopped=1; kill -TERM "$sweep"' TERM INT
code=0
wait "$sweep" || code=$?
if [[ -n "$stopped" ]]; then  # the signal has interrupted `wait`, not the sweep
    code=0
    wait "$sweep" || code=$?
fi
exit "$code"
