"""Find keys of services by the literal that each of them begins with.

`forms` has the keys that are seen most. The many others are here, each with a literal that is
looked up first: that is much faster than one pattern for all of them. The group of a pattern is the
secret; a prefix before it stays, so that readers recognise the kind.
"""

import re
from collections.abc import Iterator

Span = tuple[int, int]

# The start of a word, also after a line break that is written as text.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_END = r"(?![A-Za-z0-9])"
_UUID = r"[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"

# (a literal in the key, the pattern). Literals that are part of ordinary words need _START.
_SHAPES = (
    # passwords and clouds
    ("A3-", rf"{_START}A3-([A-Z0-9]{{6}}(?:-[A-Z0-9]{{5,11}}){{4,5}}){_END}"),
    ("ops_eyJ", r"ops_(eyJ[\w+/=-]{50,})"),
    ("p8e-", rf"{_START}p8e-([A-Za-z0-9]{{32}}){_END}"),
    ("LTAI", rf"{_START}LTAI([A-Za-z0-9]{{20}}){_END}"),
    ("ABSK", rf"{_START}ABSK([A-Za-z0-9+/]{{100,}}={{0,2}})"),
    ("bedrock-api-key-", r"bedrock-api-key-([\w+/=-]{40,})"),
    ("Q~", r"Q~(?<=[\w~.]{3}\dQ~)([\w~.-]{31,34})(?![\w~])"),
    ("v1.0-", rf"{_START}v1\.0-([a-f0-9]{{24}}-[a-f0-9]{{146}}){_END}"),
    ("_v1_", r"do[or]_v1_([a-f0-9]{64})"),
    ("HRKU-", rf"{_START}HRKU-([\w-]{{50,}})"),
    ("fo1_", rf"{_START}fo1_([\w-]{{43}})"),
    ("fm1", rf"{_START}fm1[ar]_([A-Za-z0-9+/]{{100,}}={{0,3}})"),
    ("fm2_", rf"{_START}fm2_([A-Za-z0-9+/]{{100,}}={{0,3}})"),
    ("tk-us-", rf"{_START}tk-us-([\w-]{{48}})"),
    ("AQVN", rf"{_START}AQVN([\w-]{{35,38}}){_END}"),
    ("t1.", rf"{_START}t1\.([\w-]{{10,}}+={{0,2}}\.[\w-]{{86}}={{0,2}})"),
    ("hvb.", rf"{_START}hvb\.([\w-]{{100,}})"),
    (".atlasv1.", r"\.atlasv1\.([\w=-]{60,70})"),
    ("sha256~", rf"{_START}sha256~([\w-]{{43}}){_END}"),
    ("pscale_", rf"{_START}pscale_(?:tkn|oauth|pw)_([\w=.-]{{32,64}})"),
    ("4b1d", rf"{_START}4b1d([A-Za-z0-9]{{38}}){_END}"),
    # code, builds and tests
    ("AKCp", rf"{_START}AKCp([A-Za-z0-9]{{60,}})"),
    ("cmVmd", rf"{_START}cmVmd([A-Za-z0-9]{{59}}){_END}"),
    ("ATATT3", rf"{_START}ATATT3([\w=-]{{100,}})"),
    ("CLOJARS_", r"CLOJARS_([A-Za-z0-9]{60})"),
    ("glffct-", rf"{_START}glffct-([\w-]{{20,}})"),
    ("glimt-", rf"{_START}glimt-([\w-]{{20,}})"),
    ("glsoat-", rf"{_START}glsoat-([\w-]{{20,}})"),
    ("GR1348941", r"GR1348941([\w-]{20})"),
    ("_gitlab_session=", rf"_gitlab_session=([0-9a-z]{{32}}){_END}"),
    ("lin_", rf"{_START}lin_(?:api|oauth)_([A-Za-z0-9]{{40}})"),
    ("API-", rf"{_START}API-([A-Z0-9]{{26}}){_END}"),
    ("PMAK-", rf"{_START}PMAK-([a-f0-9]{{24}}-[a-f0-9]{{34}})"),
    ("pnu_", rf"{_START}pnu_([A-Za-z0-9]{{36}}){_END}"),
    ("pul-", rf"{_START}pul-([a-f0-9]{{40}}){_END}"),
    ("rdme_", rf"{_START}rdme_([a-z0-9]{{70}})"),
    ("rubygems_", rf"{_START}rubygems_([a-f0-9]{{48}})"),
    ("sntry", rf"{_START}sntry(?:s_|u_)((?:eyJ)?[\w+/=-]{{60,}})"),
    ("squ_", rf"{_START}squ_([a-f0-9]{{40}})"),
    ("sqp_", rf"{_START}sqp_([a-f0-9]{{40}})"),
    ("sqa_", rf"{_START}sqa_([a-f0-9]{{40}})"),
    ("sgp_", rf"{_START}sgp_((?:(?:[a-fA-F0-9]{{16}}|local)_)?[a-fA-F0-9]{{40}})"),
    ("ico-", rf"{_START}ico-([A-Za-z0-9]{{32}}){_END}"),
    (".acc", r"(?:sc|ext|scauth|authress)_([a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][\w+/=.-]{40,})"),
    ("pat.", rf"{_START}pat\.([\w-]{{22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}})"),
    ("sat.", rf"{_START}sat\.([\w-]{{22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}})"),
    ("s-s4t2", rf"{_START}s-s4t2(?:ud|af)-([a-f0-9]{{64}})"),
    # data, messages and money
    ("pat", rf"{_START}pat([A-Za-z0-9]{{14}}\.[a-f0-9]{{64}}){_END}"),
    ("dapi", rf"{_START}dapi([a-f0-9]{{32}})(?![a-f0-9])"),
    ("dnkey-", rf"{_START}dnkey-([\w=-]{{26}}-[\w=-]{{52}})"),
    ("dp.", rf"{_START}dp\.(?:pt|st|ct|sa|scim|audit)\.([A-Za-z0-9.]{{40,60}})"),
    ("sl.", rf"{_START}sl\.([\w=-]{{130,}})"),
    ("duffel_", rf"{_START}duffel_(?:test|live)_([\w=-]{{43}})"),
    ("dt0c01.", r"dt0c01\.([A-Za-z0-9]{24}\.[A-Za-z0-9]{64})"),
    ("EZAK", rf"{_START}EZAK([A-Za-z0-9]{{54}}){_END}"),
    ("EZTK", rf"{_START}EZTK([A-Za-z0-9]{{54}}){_END}"),
    ("EAA", rf"{_START}EAA([MC][A-Za-z0-9]{{100,}}){_END}"),
    ("EAAA", rf"{_START}EAAA([\w-]{{60}})(?![\w+/=-])"),
    ("|", r"\|(?<=\d{15}\|)(?=[A-Za-z_-]*\d)([\w-]{27,40})(?![\w-])"),
    ("FLWSECK", r"FLWSECK(?:_TEST)?-([a-h0-9]{12,32}(?:-X)?)"),
    ("fio-u-", rf"{_START}fio-u-([\w=-]{{64}})"),
    ("eyJrIjoi", rf"{_START}eyJrIjoi([A-Za-z0-9]{{70,}}={{0,3}})"),
    ("glc_", rf"{_START}glc_([A-Za-z0-9+/]{{32,}}={{0,3}})"),
    ("glsa_", rf"{_START}glsa_([A-Za-z0-9]{{32}}_[A-Fa-f0-9]{{8}})"),
    ("api_org_", rf"{_START}api_org_([A-Za-z]{{34}}){_END}"),
    ("ZXlK", rf"{_START}ZXlK([A-Za-z0-9+/_=-]{{60,}})"),
    ("key-", rf"{_START}key-([a-f0-9]{{32}}){_END}"),
    ("_mmk", r"_mmk(?<=[A-Za-z0-9]{6}_([A-Za-z0-9]{29})_mmk)"),
    (
        ".webhook.office.com/",
        r"\.webhook\.office\.com/webhookb2/([\w@-]{60,}/IncomingWebhook/[\w/-]{60,})",
    ),
    ("NRJS-", rf"{_START}NRJS-([a-f0-9]{{19}})"),
    ("NRII-", rf"{_START}NRII-([\w-]{{32}})"),
    ("NRAK-", rf"{_START}NRAK-([A-Z0-9]{{27}})"),
    ("ntn_", rf"{_START}ntn_([0-9]{{11}}[A-Za-z0-9]{{35}})"),
    ("access-", rf"{_START}access-(?:sandbox|development|production)-({_UUID})"),
    ("xkeysib-", r"xkeysib-([a-f0-9]{64}-[A-Za-z0-9]{16})"),
    ("sm_", rf"{_START}sm_[aps]at_([A-Za-z0-9]{{16}}){_END}"),
    ("shippo_", rf"{_START}shippo_(?:live|test)_([a-fA-F0-9]{{40}})"),
    ("sq0", rf"{_START}sq0(?:atp|csp)-([\w-]{{22,60}})"),
    ("k_prod_", r"[rs]k_prod_([A-Za-z0-9]{10,99})"),
    ("CONTRIBSYS__COM", r"CONTRIBSYS__COM[\"']?[=:\s\"']{1,4}([a-f0-9]{8}:[a-f0-9]{8})"),
    ("k.", rf"{_START}[pst]k\.([A-Za-z0-9]{{60,}}\.[\w-]{{20,}})"),
    ("SK", rf"{_START}SK([0-9a-f]{{32}}){_END}"),
    ("tfp_", rf"{_START}tfp_([\w.=-]{{59}})"),
)


def find_service_keys(text: str) -> Iterator[Span]:
    """Yield the spans of keys that begin with a literal of their service."""
    for literal, pattern in _SHAPES:
        if literal in text:
            # Compiled when it is needed first, because most of them never are.
            for match in re.finditer(pattern, text):
                yield match.span(1)
