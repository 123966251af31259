"""A layout of tccc as hosts of Mininet.

Started by tccc with Debian's Python. Reads the layout as one line of JSON, makes the hosts and answers with their
processes; waits for a line that says that the links' interfaces are there, then takes them in, addresses them and adds
the routes; holds the network until its input ends, as it does when tccc is killed.
"""

import json
import sys

from mininet.link import Link
from mininet.log import setLogLevel
from mininet.net import Mininet


class MadeLink(Link):
    """A link whose two interfaces tccc has made in the hosts."""

    @classmethod
    def makeIntfPair(cls, *_names, **_options):
        """Makes nothing: the interfaces are there."""

    def delete(self):
        """Deletes nothing: the interfaces go with tccc's link."""


def answer(value):
    """Says one line of JSON."""
    print(json.dumps(value), flush=True)


def run(host, command):
    """Runs a command in a host; what it prints is an error."""
    said = host.cmd(command).strip()
    if said:
        raise RuntimeError(f'"{command}" in {host.name}: {said}')


def add_links(net, layout):
    """Takes in the interfaces and gives them their addresses."""
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
    """Gives every host its own address, and one route to every other."""
    for node in layout["nodes"]:
        host = net[node["name"]]
        run(host, "ifconfig lo up")
        run(host, f'ip address add {node["address"]}/32 dev lo')
        for route in node["routes"]:
            quickack = " quickack 1" if route["quickack"] else ""
            run(host, f'ip route add {route["to"]} via {route["gateway"]}{quickack}')


def main():
    """Builds the network, and takes it down when the input ends."""
    setLogLevel("error")
    Mininet.inited = True  # else Mininet raises limits and sysctls of the whole machine
    layout = json.loads(sys.stdin.readline())
    net = Mininet(controller=None)
    try:
        for node in layout["nodes"]:
            net.addHost(node["name"])
        answer({"processes": {node["name"]: net[node["name"]].pid for node in layout["nodes"]}})
        if sys.stdin.readline():
            add_links(net, layout)
            add_routes(net, layout)
            answer({"built": True})
            sys.stdin.readline()
    except (RuntimeError, OSError) as error:
        answer({"error": str(error)})
    finally:
        net.stop()


main()
