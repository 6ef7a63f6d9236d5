"""All charts of a report by name, and which of them shows what a rule judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from normdiag.charts.attention_logits import chart_attention_logits
from normdiag.charts.block_jacobians import chart_block_kappa, chart_block_singular_values
from normdiag.charts.contributions import chart_contributions
from normdiag.charts.gain_histograms import chart_gain_histograms
from normdiag.charts.gains import chart_gain_outliers, chart_gains
from normdiag.charts.gradients import chart_gradient_groups, chart_gradient_stream
from normdiag.charts.headroom import chart_absorbed_updates, chart_headroom, chart_norm_headroom
from normdiag.charts.largest_value import chart_largest_value
from normdiag.charts.layer_geometry import chart_block_influence, chart_effective_rank
from normdiag.charts.nearest_limits import chart_nearest_limits
from normdiag.charts.norm_inputs import (
    chart_channel_share,
    chart_epsilon_share,
    chart_input_variance,
)
from normdiag.charts.norm_jacobians import chart_norm_amplification, chart_norm_kappa
from normdiag.charts.specification import Spec
from normdiag.charts.stream_norm import chart_stream_norm
from normdiag.charts.token_likeness import chart_token_likeness
from normdiag.charts.token_maps import chart_token_norm, chart_token_update, chart_token_variance
from normdiag.charts.update_direction import chart_cosine, chart_out_ratio
from normdiag.charts.update_ratio import chart_update_ratio
from normdiag.report.report import Report

CHARTS: Mapping[str, Callable[[Report], Spec]] = {
    "nearest_limits": chart_nearest_limits,
    "stream_norm": chart_stream_norm,
    "largest_value": chart_largest_value,
    "update_ratio": chart_update_ratio,
    "cosine": chart_cosine,
    "out_ratio": chart_out_ratio,
    "contributions": chart_contributions,
    "block_influence": chart_block_influence,
    "token_norm": chart_token_norm,
    "token_update": chart_token_update,
    "token_variance": chart_token_variance,
    "token_likeness": chart_token_likeness,
    "effective_rank": chart_effective_rank,
    "input_variance": chart_input_variance,
    "epsilon_share": chart_epsilon_share,
    "channel_share": chart_channel_share,
    "norm_kappa": chart_norm_kappa,
    "norm_amplification": chart_norm_amplification,
    "gains": chart_gains,
    "gain_outliers": chart_gain_outliers,
    "gain_histograms": chart_gain_histograms,
    "block_singular_values": chart_block_singular_values,
    "block_kappa": chart_block_kappa,
    "attention_logits": chart_attention_logits,
    "gradient_stream": chart_gradient_stream,
    "gradient_groups": chart_gradient_groups,
    "headroom": chart_headroom,
    "norm_headroom": chart_norm_headroom,
    "absorbed_updates": chart_absorbed_updates,
}
"""In the order of the page. Each raises MissingDataError where the report has nothing to draw."""

CHART_OF_RULE: Mapping[str, str] = {
    "ND201": "gains",
    "ND202": "gain_outliers",
    "ND204": "gains",
    "ND205": "input_variance",
    "ND206": "gains",
    "ND207": "gains",
    "ND301": "epsilon_share",
    "ND302": "input_variance",
    "ND303": "channel_share",
    "ND304": "largest_value",
    "ND305": "channel_share",
    "ND401": "stream_norm",
    "ND402": "update_ratio",
    "ND403": "update_ratio",
    "ND404": "out_ratio",
    "ND405": "token_likeness",
    "ND501": "norm_kappa",
    "ND502": "norm_amplification",
    "ND503": "block_kappa",
    "ND504": "attention_logits",
    "ND601": "gradient_stream",
    "ND602": "gradient_stream",
    "ND603": "gradient_groups",
    "ND701": "headroom",
    "ND702": "norm_headroom",
    "ND703": "absorbed_updates",
    "ND704": "input_variance",
    "ND705": "stream_norm",
    "ND706": "headroom",
}
"""Code of a rule -> the chart that shows its quantity; rules on structure and files have none."""
