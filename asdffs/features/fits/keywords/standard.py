"""The keywords that programs look for, from the metadata of Roman and JWST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final


class Standard:
    """See ``Keywords``: keywords of FITS 4.0, sections 4.4.2 and 9, and usual ones of observatories."""

    paths: Final[Mapping[str, Sequence[str]]] = {
        "TELESCOP": ("telescope",),
        "INSTRUME": ("instrument.name",),
        "DETECTOR": ("instrument.detector",),
        "FILTER": ("instrument.filter", "instrument.optical_element"),
        "GRATING": ("instrument.grating",),
        "OBJECT": ("target.catalog_name", "target.proposer_name", "target.name"),
        "RA_TARG": ("target.ra", "pointing.target_ra"),
        "DEC_TARG": ("target.dec", "pointing.target_dec"),
        "EXPTIME": ("exposure.exposure_time", "exposure.effective_exposure_time"),
        "DATE-OBS": ("observation.date_beg", "exposure.start_time", "observation.date"),
        "DATE-END": ("observation.date_end", "exposure.end_time"),
        "MJD-OBS": ("exposure.start_time_mjd",),
        "OBS_ID": ("observation.obs_id", "observation.observation_id"),
        "ORIGIN": ("origin",),
    }


PLUGIN = Standard()
