"""Roads of geopandas as distance graphs."""

import numpy as np
import pytest

from isoweave import embed_graph
from isoweave.interop import from_geopandas


@pytest.fixture(scope="module")
def roads():
    geopandas = pytest.importorskip("geopandas")
    from shapely.geometry import LineString, MultiLineString

    bent = LineString([(0, 0), (0, 3), (4, 3)])
    lines = [bent, LineString([(0, 0), (4, 3)]), MultiLineString([[(4, 3), (8, 3)], [(8, 3), (8, 0)]])]
    return geopandas.GeoDataFrame({"metres": [7.5, 5.5, 4.0]}, geometry=lines, crs="EPSG:3857")


def test_lines_meet_at_their_ends(roads):
    distances, names = from_geopandas(roads)
    assert names == ((0, 0), (4, 3), (8, 3), (8, 0))
    # Of the two ways between the first two the shorter counts.
    expected = np.zeros((4, 4))
    expected[0, 1], expected[1, 2], expected[2, 3] = 5.0, 4.0, 3.0
    np.testing.assert_allclose(distances.toarray(), expected + expected.T)
    assert from_geopandas(roads, length="metres").distances[0, 1] == 5.5
    assert embed_graph(distances).coordinates.shape == (4, 2)


def test_what_is_refused(roads):
    with pytest.raises(ValueError, match="degrees"):
        from_geopandas(roads.to_crs("EPSG:4326"))
    with pytest.raises(ValueError, match="there is a Point"):
        from_geopandas(roads.set_geometry(roads.geometry.centroid))


def test_something_else():
    with pytest.raises(TypeError, match="Expected a GeoDataFrame or GeoSeries, got ndarray"):
        from_geopandas(np.eye(3))
