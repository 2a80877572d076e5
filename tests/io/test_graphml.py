"""Distance graphs in GraphML: those of networkx, and damaged or hostile ones."""

import networkx as nx
import numpy as np
import pytest

from isoweave.io import InputFileError, read_input

HEAD = '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
KEY = '<key id="d0" for="edge" attr.name="length" attr.type="double"/>\n<graph edgedefault="undirected">\n'
EDGE = '<edge source="a" target="b"><data key="d0">{}</data></edge>\n'
TAIL = "</graph></graphml>\n"


@pytest.mark.parametrize("name", ["length", "distance", "weight"])
def test_what_networkx_writes(tmp_path, name):
    graph = nx.random_geometric_graph(40, 0.4, seed=3)
    for i, j in graph.edges:
        graph.edges[i, j][name] = float(np.hypot(*np.subtract(*(graph.nodes[v]["pos"] for v in (i, j)))))
        graph.edges[i, j]["kind"] = "road & <rail>"
    for _, data in graph.nodes(data=True):
        del data["pos"]
    path = tmp_path / "g.graphml"
    nx.write_graphml(graph, path)
    loaded = read_input(path, as_graph=name == "weight" or None)
    assert loaded.names == tuple(map(str, graph.nodes))
    expected = nx.to_scipy_sparse_array(graph, weight=name)
    np.testing.assert_allclose(loaded.graph.toarray(), expected.toarray())


BAD = [
    (HEAD + KEY + EDGE.format("x1") + TAIL, "line 5: the length of an edge is 'x1', not a number"),
    (HEAD + KEY + '<edge source="a" target="b"/>\n' + TAIL, "line 5: the length of an edge is missing"),
    (HEAD + KEY + EDGE.format(-1) + TAIL, "line 5: distance -1.0"),
    (HEAD + KEY + '<edge source="a"/>' + TAIL, "line 5: no 'target'"),
    (HEAD + KEY + TAIL, "no edges"),
    (HEAD + KEY + EDGE.format(1), "damaged XML"),
    (HEAD + KEY.replace("length", "weight") + EDGE.format(1) + TAIL, "--graph reads them as lengths"),
    (HEAD + KEY.replace("length", "color") + EDGE.format(1) + TAIL, "they have color"),
    ('<!DOCTYPE a [<!ENTITY b "c">]><graphml/>', "a document type is declared"),
    ("source,target\n", "damaged XML"),
]


@pytest.mark.parametrize(("text", "match"), BAD)
def test_what_is_refused(put, text, match):
    with pytest.raises(InputFileError, match=match):
        read_input(put("g.graphml", text))


def test_features_are_not_read_from_it(put):
    with pytest.raises(InputFileError, match="cannot read features"):
        read_input(put("g.graphml", HEAD + KEY + EDGE.format(1) + TAIL), as_graph=False)
