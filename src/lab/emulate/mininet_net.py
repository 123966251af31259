"""Builds a layout of tccc from Mininet hosts.

tccc starts this with Debian's Python. It reads the layout as one line of JSON, creates the hosts and answers with their
process ids. The next line of input says that the interfaces of the links exist. Then it adds them to Mininet, assigns
addresses and adds routes. It holds the network until its input ends, which also happens when tccc is killed.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading

from mininet.link import Link
from mininet.log import setLogLevel
from mininet.net import Mininet


# Longest time to take the network down after the input has ended, seconds. A host that hangs would delay it forever.
GRACE_S = 10


class MadeLink(Link):
    """A link whose two interfaces tccc has created in the hosts."""

    @classmethod
    def makeIntfPair(cls, *_names, **_options):
        """Creates nothing, because the interfaces exist."""

    def delete(self):
        """Deletes nothing, because tccc's link deletes the interfaces."""


def answer(value):
    """Prints one line of JSON."""
    print(json.dumps(value), flush=True)


def run(host, command):
    """Runs a command in a host; any output is an error."""
    said = host.cmd(command).strip()
    if said:
        raise RuntimeError(f'"{command}" in {host.name}: {said}')


def add_links(net, layout):
    """Adds the interfaces to Mininet and assigns their addresses."""
    for link in layout["links"]:
        one, other = link["ends"]
        made = net.addLink(
            net[one["node"]],
            net[other["node"]],
            cls=MadeLink,
            intfName1=one["interface"],
            intfName2=other["interface"],
        )
        for interface, end in ((made.intf1, one), (made.intf2, other)):
            said = interface.setIP(end["address"], layout["prefix"]).strip()
            if said:
                raise RuntimeError(f'the address of {end["interface"]} in {end["node"]}: {said}')


def add_routes(net, layout):
    """Gives every host its own address, and its routes to the other hosts."""
    for node in layout["nodes"]:
        host = net[node["name"]]
        run(host, "ifconfig lo up")
        run(host, f'ip address add {node["address"]}/32 dev lo')
        for route in node["routes"]:
            quickack = " quickack 1" if route["quickack"] else ""
            run(host, f'ip route add {route["to"]}/{route["prefix"]} via {route["gateway"]}{quickack}')


def end_without_mininet():
    """Kills the hosts and ends this process, whatever it is waiting for."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        for child in map(int, children.read().split()):
            for end in (os.killpg, os.kill):  # a host that is being created leads no group yet
                with contextlib.suppress(ProcessLookupError):
                    end(child, signal.SIGKILL)
    os._exit(1)


def pass_lines(lines, is_down):
    """Passes the input on. An empty line marks its end, after which the network must be taken down."""
    for line in sys.stdin:
        lines.put(line)
    lines.put("")
    if not is_down.wait(GRACE_S):
        end_without_mininet()


def main():
    """Builds the network, and takes it down when the input ends."""
    lines, is_down = queue.Queue(), threading.Event()
    threading.Thread(target=pass_lines, args=(lines, is_down), daemon=True).start()
    setLogLevel("error")
    Mininet.inited = True  # else Mininet raises limits and sysctls of the whole machine
    layout = json.loads(lines.get())
    net = Mininet(controller=None)
    try:
        for node in layout["nodes"]:
            net.addHost(node["name"])
        answer({"processes": {node["name"]: net[node["name"]].pid for node in layout["nodes"]}})
        if lines.get():
            add_links(net, layout)
            add_routes(net, layout)
            answer({"built": True})
            lines.get()
    except (RuntimeError, OSError) as error:
        answer({"error": str(error)})
    finally:
        net.stop()
        is_down.set()


main()
