#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm_cluster.sh COMMAND DIR [...]: a real Slurm cluster whose nodes are all this machine. As root; needs the packages
# slurm-wlm and munge. All its state is in DIR. Jobs of its partition urgent take the nodes of other jobs: those of main
# at once, those of patient after a minute.
#
#   up DIR [NODES]               starts it, and prints a variable for the environment of its users. With
#                                SLURM_CLUSTER_NETWORK=1 each node has a network of its own (package iproute2)
#   kill DIR NODE                ends every process of a node
#   start DIR NODE               starts a node again
#   cut DIR NODE                 cuts its network off
#   read_only DIR NODE FOLDER    the node cannot write in the folder any more
#   hide DIR NODE FOLDER         the folder is empty on the node, as one that is not mounted
#   down DIR                     ends it
set -euo pipefail
command=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd -P)
chmod 755 "$dir" # munged wants to be reached by everyone
conf=$dir/etc/slurm.conf
host=$(hostname -s)
port=${SLURM_CLUSTER_PORT:-17100} # of the controller; node i has port + i
bridge=hearthbr                   # to which the nodes' networks are connected
[ ! -e "$dir/network" ] || SLURM_CLUSTER_NETWORK=1
network=${SLURM_CLUSTER_NETWORK:-0}
if [ "$network" = 1 ]; then
  addresses=10.77.7 controller=10.77.7.1
else
  addresses=127.0.0 controller=127.0.0.1
fi

# Daemons carry SLURM_CLUSTER=DIR in their environment, and are found by it. SLURM_CONF must be the first variable:
# Slurm writes its processes' titles over the others.
daemon() { env -i SLURM_CONF="$conf" SLURM_CLUSTER="$dir" PATH="$PATH" "$@"; }

# A node has its own host name, and a folder of its own for PMIx where other hosts have one.
start_node() {
  local enter=()
  [ "$network" = 0 ] || enter=(nsenter --net="/run/netns/$bridge-$1")
  mkdir -p "$dir/spool/$1" "$dir/pmix/$1" "$dir/pmix/here"
  # shellcheck disable=SC2016 # the inner shell expands it
  "${enter[@]}" unshare --mount --uts --propagation private bash -c 'hostname "$0" &&
    mount --bind "$1/etc/hosts" /etc/hosts && mount --bind "$1/pmix/$0" "$1/pmix/here" &&
    exec env -i SLURM_CONF="$1/etc/slurm.conf" SLURM_CLUSTER="$1" SLURM_CLUSTER_NODE="$0" PATH="$PATH" \
      slurmd -f "$1/etc/slurm.conf" -N "$0"' \
    "$1" "$dir"
}

# A cable from each node to one switch.
make_network() {
  touch "$dir/network"
  [ ! -e "/sys/class/net/$bridge" ] || remove_network # a test that was killed has left it
  ip link add "$bridge" type bridge
  ip address add "$controller/24" dev "$bridge"
  ip link set "$bridge" up
  for i in $(seq "$1"); do
    ip netns add "$bridge-node$i"
    ip link add "$bridge-$i" type veth peer name eth0 netns "$bridge-node$i"
    ip link set "$bridge-$i" master "$bridge" up
    ip -n "$bridge-node$i" link set lo up
    ip -n "$bridge-node$i" link set eth0 up
    ip -n "$bridge-node$i" address add "$addresses.$((10 + i))/24" dev eth0
  done
}

remove_network() {
  local name
  for name in /run/netns/"$bridge"-node*; do
    [ ! -e "$name" ] || ip netns delete "$(basename "$name")"
  done
  ip link delete "$bridge"
}

ours() {
  local file
  # shellcheck disable=SC2013 # /proc has no spaces
  for file in $(grep --files-with-matches --null-data --line-regexp --fixed-strings "SLURM_CLUSTER=$dir" \
    /proc/[0-9]*/environ 2>/dev/null); do
    file=${file#/proc/}
    echo "${file%/environ}"
  done
}

# Its slurmd and stepd have the cluster's variable, what they started Slurm's own.
kill_node() {
  local file process
  # shellcheck disable=SC2013 # /proc has no spaces
  for file in $(grep --files-with-matches --null-data --line-regexp --fixed-strings -e "SLURM_CLUSTER_NODE=$1" \
    -e "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2>/dev/null); do
    if grep --quiet --null-data --line-regexp --fixed-strings -e "SLURM_CONF=$conf" "$file" 2>/dev/null; then
      process=${file#/proc/}
      kill -s KILL "${process%/environ}" 2>/dev/null || true
    fi
  done
}

# A node has its own mounts: those of its slurmd.
make_read_only() {
  local process
  process=$(cat "$dir/run/slurmd.$1.pid")
  # shellcheck disable=SC2016 # the inner shell expands it
  nsenter --target "$process" --mount bash -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"' "$2"
}

hide() {
  local process
  process=$(cat "$dir/run/slurmd.$1.pid")
  mkdir -p "$dir/empty"
  nsenter --target "$process" --mount mount --bind "$dir/empty" "$2"
}

write_configuration() {
  {
    cat /etc/hosts
    for i in $(seq "$1"); do echo "$addresses.$((10 + i)) node$i"; done
  } >"$dir/etc/hosts"
  echo "PMIxCliTmpDirBase=$dir/pmix/here" >"$dir/etc/mpi.conf"
  echo "CgroupPlugin=cgroup/v1" >"$dir/etc/cgroup.conf" # or slurmd looks for a mount that need not be there
  cat >"$conf" <<CONF
ClusterName=test
SlurmctldHost=$host($controller)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
KillWait=2
SlurmdTimeout=5
MessageTimeout=2
TCPTimeout=1
SchedulerParameters=sched_interval=1,batch_sched_delay=1,bf_interval=1
NodeName=node[1-$1] NodeHostname=$host NodeAddr=$addresses.[11-$((10 + $1))] Port=[$((port + 1))-$((port + $1))] CPUs=8
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=patient Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
CONF
}

up() {
  local idle
  umask 022
  mkdir -p "$dir"/{etc,run,log,state,spool}
  (umask 077 && head -c 128 /dev/urandom >"$dir/etc/munge.key")
  write_configuration "$1"
  [ "$network" = 0 ] || make_network "$1"
  daemon munged --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/state/munge.seed" --num-threads=2
  daemon slurmctld -f "$conf"
  for i in $(seq "$1"); do start_node "node$i"; done
  for _ in $(seq 100); do
    idle=$(SLURM_CONF=$conf sinfo --noheader --Node --partition=main --states=idle --format=%N 2>/dev/null | wc -l)
    [ "$idle" != "$1" ] || break
    sleep 0.1
  done
  echo "SLURM_CONF=$conf"
}

down() {
  stop
  [ "$network" = 0 ] || remove_network
}

stop() {
  local left
  SLURM_CONF=$conf timeout 5 scancel --quiet --user=root || true
  for signal in TERM TERM KILL; do
    left=$(ours)
    [ -n "$left" ] || return 0
    # shellcheck disable=SC2086 # one word a process
    kill -s "$signal" $left 2>/dev/null || true
    for _ in $(seq 20); do
      [ -n "$(ours)" ] || return 0
      sleep 0.1
    done
  done
}

case $command in
up) up "${3:-2}" ;;
kill) kill_node "$3" ;;
start) start_node "$3" ;;
read_only) make_read_only "$3" "$4" ;;
hide) hide "$3" "$4" ;;
cut) ip link set "$bridge-${3#node}" down ;;
down) down ;;
*) exit 2 ;;
esac
