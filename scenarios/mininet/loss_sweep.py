#!/usr/bin/python3
"""Goodput under random loss in plain Mininet, with an algorithm of tccc beside the kernel's Reno.

    sudo /usr/bin/python3 scenarios/mininet/loss_sweep.py --algorithm dtcp --loss 0 1 --seconds 5

Two hosts and one link: Mininet's TCLink where the kernel has netem, else tccc's. The algorithm is loaded for the time
of the script. Needs the Debian packages mininet, net-tools, iperf3, and `tccc` in PATH (or named by TCCC).
"""

import argparse
import json
import subprocess
import sys

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet

from tccc_link import TCCC, TcccLink


def has_netem(host):
    """Whether the kernel takes the qdisc: Mininet itself carries on without."""
    refused = host.cmd("tc qdisc add dev lo root netem delay 1ms").strip()
    host.cmd("tc qdisc del dev lo root")
    return not refused


def goodput_mbit(algorithm, loss, seconds):
    """Mbit/s of payload that reach the receiver."""
    Mininet.inited = True  # else Mininet raises limits and sysctls of the whole machine
    net = Mininet(controller=None)
    try:
        sender, receiver = net.addHost("h1"), net.addHost("h2")
        link = TCLink if has_netem(sender) else TcccLink
        made = net.addLink(sender, receiver, cls=link, bw=20, delay="20ms", loss=loss, max_queue_size=100)
        made.intf1.setIP("10.0.0.1/24")
        made.intf2.setIP("10.0.0.2/24")
        server = receiver.popen(["iperf3", "--server", "--one-off", "--forceflush"], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()  # it prints when it listens
        client = ["iperf3", "--client", "10.0.0.2", "--json", "--time", str(seconds), "--congestion", algorithm]
        output = sender.popen(client, stdout=subprocess.PIPE, text=True).communicate()[0]
        server.communicate()
        report = json.loads(output)
        if "error" in report:
            raise SystemExit(f'iperf3: {report["error"]}')
        return report["end"]["sum_received"]["bits_per_second"] / 1e6
    finally:
        net.stop()


def main():
    """Prints one row a loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="dtcp", help="of `tccc list`")
    parser.add_argument("--as", dest="name", help="the name that the kernel gets for it, by default its own")
    parser.add_argument("--loss", type=float, nargs="+", default=[0, 0.1, 1], help="percent, each direction")
    parser.add_argument("--seconds", type=int, default=10, help="of one transfer")
    asked = parser.parse_args()
    name = asked.name or asked.algorithm
    setLogLevel("error")
    subprocess.run([TCCC, "load", asked.algorithm, "--as", name], check=True, stdout=sys.stderr)
    try:
        print(f'{"loss":>6}  {"reno":>8}  {name:>8}  Mbit/s')
        for loss in asked.loss:
            row = [goodput_mbit(algorithm, loss, asked.seconds) for algorithm in ("reno", name)]
            print(f"{loss:>5}%  {row[0]:>8.3f}  {row[1]:>8.3f}", flush=True)
    finally:
        subprocess.run([TCCC, "unload", name], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
