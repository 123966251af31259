#!/bin/busybox sh
# The guest's first program. It loads the modules for the host's files, mounts a writable layer in memory over them, and
# starts the job there.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    insmod "/modules/$module"
done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /host || exit 1
mount -t tmpfs -o size=75% memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root || exit 1
cd /root
for folder in proc sys dev run usr/lib/modules; do
    mkdir -p "$folder"
done
mount -t proc proc proc
mount -t sysfs sys sys
mount -t devtmpfs dev dev
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs memory dev/shm
mount -t tmpfs memory run
mount -t bpf bpf sys/fs/bpf
mount -t cgroup2 cgroup sys/fs/cgroup
mount -t tracefs trace sys/kernel/tracing
mount --bind "/root$(cat /modules/place)" usr/lib/modules || exit 1
ip link set lo up
mkdir run/vm run/lock
cp /bin/busybox /job run/vm/
ln -s /"$(echo dev/vport*p1)" run/vm/stdout
ln -s /"$(echo dev/vport*p2)" run/vm/stderr
ln -s /"$(echo dev/vport*p3)" run/vm/code
exec switch_root /root /run/vm/busybox sh /run/vm/job
