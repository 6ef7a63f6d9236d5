"""The built-in inputs: four short texts of different kinds, each of more than 128 tokens."""

from __future__ import annotations

PROSE = """\
The lighthouse keeper had counted ships for thirty years, and on quiet evenings he still wrote \
their names in a long grey book. Most of them came from the north, loaded with timber and salted \
fish; a few arrived from ports he knew only from maps. When the fog was thick he lit the lamp \
early and listened. A horn meant a steamer, a bell meant a fishing boat, and silence could mean \
anything at all. His daughter, who was nine, believed that the sea kept a book of its own. \
"It writes down every keeper," she told him, "and how often each of them fell asleep." He laughed, \
but that night he stayed awake until the morning, and in the first light he saw eleven sails, one \
behind the other, coming slowly round the cape as if they had been waiting for somebody to look. \
He wrote eleven lines, closed the book, and made breakfast. Nobody in the village believed him, \
because no convoy had been expected, yet the harbour was full by noon, and for a whole week there \
was music in every street and not a single empty bed in the two small inns beside the church."""

CODE = '''\
import heapq
from collections import defaultdict


class Graph:
    """A weighted graph; edges are kept as neighbour -> cost."""

    def __init__(self):
        self.edges = defaultdict(dict)

    def connect(self, a, b, cost=1.0):
        if cost < 0:
            raise ValueError(f"negative cost: {cost!r}")
        self.edges[a][b] = self.edges[b][a] = cost

    def distances(self, start):
        best = {start: 0.0}
        queue = [(0.0, start)]
        while queue:
            far, node = heapq.heappop(queue)
            if far > best[node]:
                continue  # an outdated entry
            for other, cost in self.edges[node].items():
                if far + cost < best.get(other, float("inf")):
                    best[other] = far + cost
                    heapq.heappush(queue, (best[other], other))
        return best


if __name__ == "__main__":
    g = Graph()
    for i in range(10):
        g.connect(i, (i * 7 + 3) % 10, cost=0.5 * i)
    print({node: round(d, 2) for node, d in g.distances(0).items()})
'''

LANGUAGES = """\
Der Zug fährt um sieben ab. 今天的天气很好。 Утром было холодно. ذهبنا إلى المكتبة القديمة. \
Το καράβι έφυγε νωρίς. 春になると桜が咲く。 बारिश के बाद मिट्टी की खुशबू फैल गई। \
Elle a posé la lettre sur la table, puis elle a ouvert la fenêtre pour écouter la pluie. \
아이들은 학교가 끝난 뒤에 운동장에서 공을 차며 놀았다. \
Mañana iremos al mercado a comprar naranjas, pan y un poco de queso. \
К полудню солнце растопило последний снег, и по дороге побежали ручьи. \
我们一起去公园散步，然后在河边喝茶，晚上回家看书。\
川の両側にたくさんの人が集まって、写真を撮りに来ます。\
وقرأنا كتابا عن النجوم والبحار حتى غروب الشمس. \
הילדה מצאה אבן כחולה על שפת הים ושמרה אותה בכיס. \
Güneş batarken balıkçılar ağlarını topladı ve eve döndü. \
ฝนตกหนักตลอดคืน แต่ตอนเช้าท้องฟ้าก็แจ่มใส \
Wer zu spät kommt, wartet bis zum Abend, und dann ist der Bahnhof leer."""

MARKUP = """\
<table id="results" class="wide"><tr><th>run</th><th>loss</th><th>lr</th><th>date</th></tr>
<tr><td>017</td><td>2.3841</td><td>3e-4</td><td>2021-03-14</td></tr>
<tr><td>018</td><td>1.9075</td><td>1e-4</td><td>2021-03-15</td></tr></table>

| x | x^2 | sqrt(x) | 1/x |
|--:|----:|--------:|----:|
| 2 | 4 | 1.41421 | 0.50000 |
| 3 | 9 | 1.73205 | 0.33333 |
| 5 | 25 | 2.23607 | 0.20000 |
| 7 | 49 | 2.64575 | 0.14286 |

{"id": 90210, "tags": ["a", "b"], "price": -12.50, "ok": true, "next": null}
f(x) = \\frac{1}{\\sqrt{2\\pi\\sigma^2}} \\exp(-\\frac{(x-\\mu)^2}{2\\sigma^2}), x \\in \\mathbb{R}
+1 (555) 010-7788; 192.0.2.17:8080; 0x7fff5fbff8c0; 99.99%; 6.022e23; 3 < 4 && 5 >= 5 // 10:45 UTC
"""

TEXTS = (PROSE, CODE, LANGUAGES, MARKUP)

LENGTH = 128
"""Tokens of each text that are run, special tokens among them."""
