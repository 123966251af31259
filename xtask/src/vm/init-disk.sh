#!/bin/busybox sh
# The first program of a guest with its own disk: loads the modules for the disk, and starts the system on it.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    insmod "/modules/$module"
done
mount -t ext4 -o rw /dev/vda /root || exit 1
cd /root || exit 1
mount --move /dev dev
umount /proc
exec switch_root /root /sbin/init
